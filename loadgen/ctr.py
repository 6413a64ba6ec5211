"""Click-through rate (AI Matrix): `locust -f loadgen/ctr.py`."""

from loadgen.users import InferenceUser


class ClickThroughRate(InferenceUser):
    """Drives the workloads of this task."""
