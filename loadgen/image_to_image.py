"""Image to image (AIBench DC-AI-C5): `locust -f loadgen/image_to_image.py`."""

from loadgen.users import InferenceUser


class ImageToImage(InferenceUser):
    """Drives the workloads of this task."""
