"""Speech recognition (AI Matrix, AIBench DC-AI-C6): `locust -f loadgen/speech_recognition.py`."""

from loadgen.users import InferenceUser


class SpeechRecognition(InferenceUser):
    """Drives the workloads of this task."""
