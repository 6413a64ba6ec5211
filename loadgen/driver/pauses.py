"""The longest time for which the event loop stood still: neither sent a request nor read an answer."""

from typing import Protocol

from loadgen.driver.event_loop import YIELD_NS


class Span(Protocol):
    """The measured interval, as it is known now, in ns."""

    @property
    def start(self) -> int:
        """Its beginning."""

    @property
    def end(self) -> int:
        """Its end."""


class Pauses:
    """Watches the loop's ticks, which come every 5 ms. One that comes late, or takes long, is a pause.

    It needs no look at the machine: a stopped process, a core that others hold, swapped memory and a long collection of
    garbage all show as a tick that is late. Only the part inside the measured interval counts.
    """

    def __init__(self) -> None:
        self.longest_ns = 0
        self._due: int | None = None
        self._begun = 0

    def begin(self, now: int, interval: Span) -> None:
        """Take the beginning of a tick, which was due at the end of the last one and a rest."""
        if self._due is not None:
            self._note(self._due, now, interval)
        self._begun = now

    def end(self, now: int, interval: Span) -> None:
        """Take the end of a tick. The loop rests from ticks for as long as one took, and handles requests meanwhile."""
        self._note(self._begun, now, interval)
        self._due = now + max(YIELD_NS, now - self._begun)

    def _note(self, since: int, until: int, interval: Span) -> None:
        inside = min(until, interval.end) - max(since, interval.start)
        self.longest_ns = max(self.longest_ns, inside)
