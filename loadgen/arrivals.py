"""When requests go out: the open loop's schedule, generated whole from a seed, and the closed loop."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Distribution(StrEnum):
    """How the gaps between arrivals are distributed."""

    POISSON = "poisson"
    CONSTANT = "constant"


def schedule(distribution: Distribution, rate: float, duration_s: float, seed: int) -> npt.NDArray[np.int64]:
    """Arrival times in ns from the start, ascending, within [0, duration_s); `rate` is in requests per second.

    Poisson arrivals have independent exponential gaps: what many independent clients look like (MLPerf Inference rules,
    Server scenario). Constant arrivals are 1/rate apart. Equal arguments give equal schedules.
    """
    if distribution is Distribution.CONSTANT:
        # Multiplying, not summing: a summed gap would drift by its rounding error.
        arrivals_s = np.arange(int(np.ceil(rate * duration_s))) / rate
    else:
        arrivals_s = _poisson(rate, duration_s, np.random.default_rng(seed))
    return (arrivals_s[arrivals_s < duration_s] * 1e9).astype(np.int64)


def _poisson(rate: float, duration_s: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Cumulated exponential gaps until the duration is covered."""
    arrivals = np.empty(0)
    while not arrivals.size or arrivals[-1] < duration_s:
        last = arrivals[-1] if arrivals.size else 0.0
        expected = rate * (duration_s - last)
        gaps = rng.exponential(1 / rate, size=int(expected + 4 * np.sqrt(expected)) + 16)
        arrivals = np.concatenate([arrivals, last + np.cumsum(gaps)])
    return arrivals


class Arrivals(Protocol):
    """When requests go out."""

    def next_due(self) -> int | None:
        """Time of the next scheduled arrival in ns, None where there is none (any more)."""

    def pop(self) -> int:
        """Take the next scheduled arrival."""

    def wanted(self, in_flight: int, now: int) -> int:
        """How many unscheduled requests to send at once (the closed loop's)."""

    def finished(self, now: int) -> bool:
        """Whether no further request will go out."""


class OpenLoop:
    """A schedule made ahead; it is never re-anchored, however late the server is."""

    def __init__(self, arrivals_ns: list[int], start_ns: int) -> None:
        self._arrivals = iter(arrivals_ns)
        self._start = start_ns
        self._next = self._advance()

    def _advance(self) -> int | None:
        offset = next(self._arrivals, None)
        return None if offset is None else self._start + offset

    def next_due(self) -> int | None:
        """Time of the next arrival."""
        return self._next

    def pop(self) -> int:
        """Take it."""
        assert self._next is not None
        due, self._next = self._next, self._advance()
        return due

    def wanted(self, in_flight: int, now: int) -> int:  # noqa: ARG002 - the open loop does not look at the server
        """None: only the schedule sends."""
        return 0

    def finished(self, now: int) -> bool:  # noqa: ARG002
        """Whether the schedule is used up."""
        return self._next is None

    def stop(self) -> None:
        """Send no more."""
        self._next = None


class ClosedLoop:
    """`concurrency` requests on their way at any time, until `over(now)`."""

    def __init__(self, concurrency: int, over: Callable[[int], bool]) -> None:
        self.concurrency = concurrency
        self._over = over

    def next_due(self) -> int | None:
        """None: nothing is scheduled."""
        return None

    def pop(self) -> int:
        """Never called: nothing is scheduled."""
        raise IndexError("a closed loop has no schedule")

    def wanted(self, in_flight: int, now: int) -> int:
        """What is missing to the concurrency."""
        missing = self.concurrency - in_flight
        return 0 if missing <= 0 or self._over(now) else missing

    def finished(self, now: int) -> bool:
        """Whether the time is up."""
        return self._over(now)

    def stop(self) -> None:
        """Send no more."""
        self._over = lambda _now: True
