"""Object detection (AI Matrix, AIBench DC-AI-C9): `locust -f loadgen/object_detection.py`."""

from loadgen.users import InferenceUser


class ObjectDetection(InferenceUser):
    """Drives the workloads of this task."""
