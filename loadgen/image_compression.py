"""Learned compression (AIBench DC-AI-C12): `locust -f loadgen/image_compression.py`."""

from loadgen.users import InferenceUser


class ImageCompression(InferenceUser):
    """Drives the workloads of this task."""
