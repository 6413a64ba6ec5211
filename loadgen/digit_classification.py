"""Digit classification (AIBench DC-AI-C15): `locust -f loadgen/digit_classification.py`."""

from loadgen.users import InferenceUser


class DigitClassification(InferenceUser):
    """Drives the workloads of this task."""
