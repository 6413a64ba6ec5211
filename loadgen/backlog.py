"""Requests that are due but wait, because as many as --max-in-flight are on their way already."""

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
        self._stretches: deque[list[int]] = deque()
        """[first, last] schedule of each unbroken wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> int:
        """The schedule of the request that has waited longest."""
        return self._waiting[0]

    def append(self, scheduled: int) -> None:
        """Let a request wait."""
        if self._waiting:
            self._stretches[-1][1] = scheduled
        else:
            self._stretches.append([scheduled, scheduled])
        self._waiting.append(scheduled)

    def popleft(self) -> int:
        """Let the first one go."""
        return self._waiting.popleft()

    def forget(self, before: int) -> None:
        """Drop what is known of requests scheduled before: they all have their outcome."""
        while self._stretches and self._stretches[0][1] < before and not (self._waiting and len(self._stretches) == 1):
            self._stretches.popleft()

    def waited(self, scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these requests had to wait."""
        if not self._stretches:
            return np.zeros(len(scheduled), dtype=np.bool_)
        first, last = np.array(self._stretches, dtype=np.int64).T
        index = np.searchsorted(first, scheduled, side="right") - 1
        inside: npt.NDArray[np.bool_] = (index >= 0) & (scheduled <= last[index])
        return inside
