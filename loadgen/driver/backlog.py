"""Requests that are due but wait, because as many as --max-in-flight are in flight."""

from array import array
from bisect import bisect_left
from collections import deque

import numpy as np
import numpy.typing as npt


class Backlog:
    """First in, first out; remembers who had to wait, so that the wait is not taken for the generator's own delay.

    Arrivals come in the order of their schedule, and while some wait every further one does: those that waited lie in
    a few stretches of the schedule, however many they are.
    """

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        # Arrays, which numpy reads as they are: brief waits make thousands of stretches a second, which are looked at
        # 20 times a second.
        self._stretches, self._ends = array("q"), array("q")
        """First and last schedule of each unbroken wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> int:
        """The schedule of the request that has waited longest."""
        return self._waiting[0]

    def append(self, scheduled: int) -> None:
        """Let a request wait."""
        if self._waiting:
            self._ends[-1] = scheduled
        else:
            self._stretches.append(scheduled)
            self._ends.append(scheduled)
        self._waiting.append(scheduled)

    def popleft(self) -> int:
        """Let the first one go."""
        return self._waiting.popleft()

    def forget(self, before: int) -> None:
        """Drop what is known of requests scheduled before: they all have their outcome."""
        over = min(bisect_left(self._ends, before), len(self._ends) - bool(self._waiting))
        del self._stretches[:over], self._ends[:over]

    def waited(self, scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mark the requests that had to wait."""
        if not self._stretches:
            return np.zeros(len(scheduled), dtype=np.bool_)
        first, last = (np.frombuffer(each, np.int64) for each in (self._stretches, self._ends))
        index = np.searchsorted(first, scheduled, side="right") - 1
        inside: npt.NDArray[np.bool_] = (index >= 0) & (scheduled <= last[index])
        return inside
