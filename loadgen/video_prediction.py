"""Video prediction (AIBench DC-AI-C11): `locust -f loadgen/video_prediction.py`."""

from loadgen.users import InferenceUser


class VideoPrediction(InferenceUser):
    """Drives the workloads of this task."""
