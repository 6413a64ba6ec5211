"""3D face recognition (AIBench DC-AI-C8): `locust -f loadgen/face_recognition_3d.py`."""

from loadgen.users import InferenceUser


class FaceRecognition3d(InferenceUser):
    """Drives the workloads of this task."""
