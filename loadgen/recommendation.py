"""Recommendation (AIBench DC-AI-C10): `locust -f loadgen/recommendation.py`."""

from loadgen.users import InferenceUser


class Recommendation(InferenceUser):
    """Drives the workloads of this task."""
