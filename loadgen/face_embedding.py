"""Face embedding (AIBench DC-AI-C7): `locust -f loadgen/face_embedding.py`."""

from loadgen.users import InferenceUser


class FaceEmbedding(InferenceUser):
    """Drives the workloads of this task."""
