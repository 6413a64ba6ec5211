"""Image captioning (AIBench DC-AI-C4): `locust -f loadgen/captioning.py`."""

from loadgen.users import InferenceUser


class Captioning(InferenceUser):
    """Drives the workloads of this task."""
