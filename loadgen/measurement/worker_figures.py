"""Figures of each worker of a distributed run, for the result."""

from dataclasses import dataclass

from servemark.machine.scheduling import Priority
from servemark.results.schema.run import Worker


@dataclass(frozen=True)
class WorkerFigures:
    """One process that sent a share of the load; times in ms."""

    index: int
    host: str
    pid: int
    requests: int
    schedule_delay_p99_ms: float | None
    schedule_delay_p99_ci95_ms: tuple[float, float] | None
    """Its 95 % interval: a few late sends by chance do not condemn a worker."""
    cpu_utilization: float | None
    max_in_flight: int
    clock_uncertainty_ms: float
    """Half of the shortest round trip, by which the worker's clock may be off."""
    trouble: str | None = None
    """Reason why its share of the load is not what was asked for, None if it is."""
    priority: Priority | None = None
    priority_note: str | None = None

    def __str__(self) -> str:
        return f"worker {self.index} ({self.host}, pid {self.pid})"

    def to_dict(self) -> Worker:
        """As result.json holds it."""
        late = self.schedule_delay_p99_ci95_ms
        return {
            "index": self.index,
            "host": self.host,
            "pid": self.pid,
            "requests": self.requests,
            "schedule_delay_p99_ms": self.schedule_delay_p99_ms,
            "schedule_delay_p99_ci95_ms": None if late is None else list(late),
            "cpu_utilization": self.cpu_utilization,
            "max_in_flight": self.max_in_flight,
            "clock_uncertainty_ms": self.clock_uncertainty_ms,
            "trouble": self.trouble,
            "priority": self.priority,
            "priority_note": self.priority_note,
        }
