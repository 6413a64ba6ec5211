"""Game of Go (MLPerf Training v0.5): `locust -f loadgen/game.py`."""

from loadgen.users import InferenceUser


class Game(InferenceUser):
    """Drives the workloads of this task."""
