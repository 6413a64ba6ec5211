"""Text summarization (AIBench DC-AI-C14): `locust -f loadgen/summarization.py`."""

from loadgen.users import InferenceUser


class Summarization(InferenceUser):
    """Drives the workloads of this task."""
