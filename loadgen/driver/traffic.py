"""Numbers of requests that are due, sent and in flight at one moment of a run."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Traffic:
    """Requests of the measured interval that were due (`scheduled`) and sent, and all that are on their way now."""

    scheduled: int
    sent: int
    in_flight: int
    backlog: int

    def to_dict(self) -> dict[str, int]:
        """As msgpack can hold it."""
        return asdict(self)

    @classmethod
    def of_workers(cls, reports: Iterable[dict[str, int]], scheduled: int | None) -> Self:
        """Add up the workers' reports; `scheduled` replaces theirs if a schedule is more exact."""
        parts = [cls(**report) for report in reports]
        return cls(
            scheduled=sum(part.scheduled for part in parts) if scheduled is None else scheduled,
            sent=sum(part.sent for part in parts),
            in_flight=sum(part.in_flight for part in parts),
            backlog=sum(part.backlog for part in parts),
        )


def scheduled_by(schedule: npt.NDArray[np.int64], warmup_ns: int, elapsed_ns: int) -> int:
    """Count the arrivals due until a time after the warm-up's end; a schedule counts from its start."""
    first, last = np.searchsorted(schedule, [warmup_ns, warmup_ns + max(elapsed_ns, 0)])
    return int(last - first)
