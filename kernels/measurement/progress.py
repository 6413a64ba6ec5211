"""Remaining time of a run: the expected time, corrected by the speed so far."""

import time
from collections.abc import Callable


class Progress:
    """The work that is left, in the seconds that it should take, and the time that it takes here."""

    def __init__(self, work_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.left_s = work_s
        self._done_s = 0.0
        self._clock, self._begun = clock, clock()

    def skip(self, work_s: float) -> None:
        """Take out work that need not be done."""
        self.left_s = max(self.left_s - work_s, 0.0)

    def done(self, work_s: float) -> str:
        """Count work as done; in words how long the rest takes at the speed so far: " (1 min 5 s left)"."""
        self._done_s += work_s
        self.skip(work_s)
        if not self._done_s:
            return ""
        seconds = (self._clock() - self._begun) * self.left_s / self._done_s
        return f" ({duration(seconds)} left)" if seconds >= 1 else ""


def duration(seconds: float) -> str:
    """A time in words: "1 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
