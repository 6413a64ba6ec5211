"""Image classification (AI Matrix, AIBench DC-AI-C1): `locust -f loadgen/classification.py`."""

from loadgen.users import InferenceUser


class Classification(InferenceUser):
    """Drives the workloads of this task."""
