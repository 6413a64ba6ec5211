"""Offset of another process's monotonic clock, from round trips of messages."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RoundTrip:
    """A message there and back, in ns: sent and received by our clock, answered by theirs."""

    sent: int
    answered: int
    received: int

    @property
    def length(self) -> int:
        """Return the duration of the round trip."""
        return self.received - self.sent


@dataclass(frozen=True)
class ClockOffset:
    """Offset to add to our time to get theirs; exact to `uncertainty_ns`, whichever way was slower."""

    offset_ns: int
    uncertainty_ns: int

    @classmethod
    def estimate(cls, trips: Sequence[RoundTrip]) -> "ClockOffset":
        """Take the shortest trip, as NTP does (RFC 5905, section 10): its answer lies half-way, give or take half."""
        best = min(trips, key=lambda trip: trip.length)
        half = (best.length + 1) // 2
        return cls(best.answered - (best.sent + half), half)

    def theirs(self, our_ns: int) -> int:
        """Our time by their clock."""
        return our_ns + self.offset_ns
