"""Text-to-text translation (AIBench DC-AI-C3, AI Matrix): `locust -f loadgen/translation.py`."""

from loadgen.users import InferenceUser


class Translation(InferenceUser):
    """Drives the workloads of this task."""
