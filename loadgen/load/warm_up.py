"""When a warm-up is over: what was answered in short windows, and a named rule for the end of a transient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.stats.trend import METHOD, truncation_point

WINDOW_NS = 50_000_000
LEAST_S = 2.0
"""No warm-up ends before: what begins later than this cannot be foreseen."""
MOST_S, MOST_OF_A_SHORT_RUN_S = 30.0, 3.0
FEWEST_WINDOWS = 10
"""With fewer that have an answer, nothing is said."""
CUT_SHARE, CUT_SHARE_AT_THE_END = 1 / 4, 1 / 2
"""Largest share of a warm-up that may be transient when it ends, and the share of the rule's authors at its bound."""
HOLDS = 10
"""Number of windows for which that has to be true: a single look may be luck."""

Times = npt.NDArray[np.int64]


def longest_s(duration_s: float) -> float:
    """The bound: as long as what is measured, but at least 3 s and at most 30 s."""
    return min(max(duration_s, MOST_OF_A_SHORT_RUN_S), MOST_S)


@dataclass(frozen=True)
class WarmUpOutcome:
    """Outcome of a warm-up."""

    seconds: float | None
    """Duration of the warm-up; None if the run was interrupted in it."""
    steady: bool | None
    """True if the latency was steady at the end; None if the answers are too few to decide."""
    steady_from_s: float | None
    reason: str | None
    """Reason why the warm-up did not end by itself."""


class WarmUp:
    """Mean and slowest latency of the answers that came in each window of 50 ms, up to a bound; times in ns."""

    def __init__(self, start: int, longest_s: float) -> None:
        self.start, self.longest_s = start, longest_s
        self._counts, self._sums, self._slowest = np.zeros((3, int(longest_s * 1e9) // WINDOW_NS + 1), np.int64)
        self._steady_since: int | None = None

    @property
    def windows(self) -> int:
        """Return the number of its windows, up to the bound."""
        return len(self._counts)

    def take(self, done: Times, latency: Times) -> None:
        """Count good answers that have come."""
        index = (done - self.start) // WINDOW_NS
        inside = (index >= 0) & (index < len(self._counts))
        index, latency = index[inside], latency[inside]
        np.add.at(self._counts, index, 1)
        np.add.at(self._sums, index, latency)
        np.maximum.at(self._slowest, index, latency)

    def is_over(self, now: int, waiting_since: int | None) -> bool:
        """Return True if the latency has been steady long enough; `waiting_since`: the oldest request in flight."""
        passed = (now - self.start) // WINDOW_NS
        if passed < LEAST_S * 1e9 // WINDOW_NS - HOLDS:
            return False
        if self._steady_from(now, waiting_since, CUT_SHARE) is None:
            self._steady_since = None
            return False
        if self._steady_since is None:
            self._steady_since = passed
        return passed - self._steady_since >= HOLDS

    def found(self, now: int, waiting_since: int | None, end: int) -> WarmUpOutcome:
        """Return the present outcome of a warm-up with this end."""
        seconds = (end - self.start) / 1e9
        steady_from_s = self._steady_from(now, waiting_since, CUT_SHARE_AT_THE_END)
        if steady_from_s is not None:
            return WarmUpOutcome(seconds, True, steady_from_s, None)
        answered = np.count_nonzero(self._counts)
        if answered < FEWEST_WINDOWS:
            return WarmUpOutcome(
                seconds,
                None,
                None,
                f"too few answers ({self._counts.sum()}) came to tell whether the latency is steady",
            )
        return WarmUpOutcome(
            seconds, False, None, f"the latency was not steady by {METHOD} within {self.longest_s:g} s"
        )

    def _steady_from(self, now: int, waiting_since: int | None, cut_share: float) -> float | None:
        """After how many seconds the latency was steady, if it is.

        A request that has waited for longer than any answer since then took is a transient of its own: an instance
        that compiles answers nothing, while others look steady.
        """
        answered = np.flatnonzero(self._counts[: max((now - self.start) // WINDOW_NS, 0)])
        if len(answered) < FEWEST_WINDOWS:
            return None
        point = truncation_point(self._sums[answered] / self._counts[answered])
        if point > cut_share * len(answered):
            return None
        if waiting_since is not None and now - waiting_since > self._slowest[answered[point:]].max():
            return None
        return float(answered[point] * WINDOW_NS / 1e9)

    def pack(self, now: int, waiting_since: int | None) -> dict[str, Any]:
        """All of it until now as msgpack can hold it; times are from its start."""
        return {
            "passed_ns": now - self.start,
            "waiting_since_ns": None if waiting_since is None else waiting_since - self.start,
            "windows": [each.tolist() for each in (self._counts, self._sums, self._slowest)],
        }

    def merge(self, packed: Sequence[Mapping[str, Any]]) -> tuple[int, int | None]:
        """Hold what several have packed of warm-ups of the same length.

        Returns up to when all of them are known, and since when the oldest of their requests waits.
        """
        counts, sums, slowest = (
            np.array(each, np.int64) for each in zip(*(one["windows"] for one in packed), strict=True)
        )
        self._counts, self._sums, self._slowest = counts.sum(axis=0), sums.sum(axis=0), slowest.max(axis=0)
        waiting = [since for one in packed if (since := one["waiting_since_ns"]) is not None]
        since = self.start + min(waiting) if waiting else None
        return self.start + min(one["passed_ns"] for one in packed), since
