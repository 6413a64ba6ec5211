"""Image generation (AIBench DC-AI-C2): `locust -f loadgen/image_generation.py`."""

from loadgen.users import InferenceUser


class ImageGeneration(InferenceUser):
    """Drives the workloads of this task."""
