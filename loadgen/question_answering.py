"""Question answering (HPC workload analysis): `locust -f loadgen/question_answering.py`."""

from loadgen.users import InferenceUser


class QuestionAnswering(InferenceUser):
    """Drives the workloads of this task."""
