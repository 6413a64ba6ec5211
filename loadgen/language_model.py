"""Language model, of a searched architecture (AIBench DC-AI-C17): `locust -f loadgen/language_model.py`."""

from loadgen.users import InferenceUser


class LanguageModel(InferenceUser):
    """Drives the workloads of this task."""
