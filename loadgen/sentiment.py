"""Sentiment analysis (MLPerf Training v0.5): `locust -f loadgen/sentiment.py`."""

from loadgen.users import InferenceUser


class Sentiment(InferenceUser):
    """Drives the workloads of this task."""
