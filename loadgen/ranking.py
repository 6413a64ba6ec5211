"""Learning to rank (AIBench DC-AI-C16): `locust -f loadgen/ranking.py`."""

from loadgen.users import InferenceUser


class Ranking(InferenceUser):
    """Drives the workloads of this task."""
