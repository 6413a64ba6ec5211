"""Semantic segmentation (AIBench DC-AI-C5's judge, MLPerf Inference): `locust -f loadgen/semantic_segmentation.py`."""

from loadgen.users import InferenceUser


class SemanticSegmentation(InferenceUser):
    """Drives the workloads of this task."""
