"""3D reconstruction (AIBench DC-AI-C13): `locust -f loadgen/reconstruction_3d.py`."""

from loadgen.users import InferenceUser


class Reconstruction3d(InferenceUser):
    """Drives the workloads of this task."""
