"""When bytes came and went, as the kernel's packet stamps tell it, on the clock of the process.

A process learns of an answer when it is woken, on a busy machine milliseconds after the answer lay in its socket. The
kernel stamps each packet when it enters the stack, and a channel's socket hands the stamp out with the bytes, in C
where that could be compiled. Sources: Kogias, Mallon and Bugnion, "Lancet: A self-correcting Latency Measuring Tool"
(USENIX ATC 2019), section 4; Zhang, Meisner, Mars and Tang, "Treadmill" (ISCA 2016), on what waiting in the client does
to tails.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from servemark.stats.histogram import Histogram

FOLLOW_NS = 1_000_000
"""Interval at which the offset of the two clocks is measured again."""
STAMP_NS = 5 * FOLLOW_NS
"""Interval at which a request is chosen whose sending is stamped: 1,000 in 5 s. Each costs several system calls."""
STEADY_NS = 1_000
"""A reading of both clocks that took no longer than this is exact enough."""
TRIES = 5
MOST_SLEW = 0.1
"""Fastest change of the offset that is a slew: chrony's default is 0.083, the kernel's own 0.0005."""
JITTER_NS = 20_000
"""Part of a change of the offset that the reading itself may be."""
DISTRUST_NS = 100_000_000
"""Time after a step in which no stamp is taken: answers that came before it may still be read."""
ROUNDING_NS = 2_000
"""A stamp so little before the sending or after the reading is taken as that moment: it is the reading's own error."""
Receive = Callable[[int, int], tuple[bytes, int]]
"""Takes the most bytes to receive and when the request was sent, and returns the bytes and when the last of them had
come (ns of the monotonic clock); b"" and 0 where the other side has closed."""


class Stamped(Protocol):
    """A channel whose bytes the kernel stamps."""

    @property
    def sent(self) -> int:
        """When its request was sent, in ns of the monotonic clock."""

    def stamp_next_request(self) -> None:
        """Have the kernel stamp the sending of the next request."""


class OffsetInPython:
    """By how much the time of day is ahead of the monotonic clock (`offset`), and when that is `due` to be measured."""

    offset = due = 0


if TYPE_CHECKING:
    ClockOffset = OffsetInPython
    compiled: Callable[[int, Any, Stamped], Receive] | None
else:
    try:
        from loadgen.sut._stamped import ClockOffset
        from loadgen.sut._stamped import receiver as compiled
    except ImportError:
        ClockOffset, compiled = OffsetInPython, None


class KernelClock(ClockOffset):
    """Puts the kernel's stamps, of CLOCK_REALTIME, on the monotonic clock, for all channels of one target.

    The offset of the clocks is measured each millisecond, so that it follows slews. After a step, and where a stamp
    lies before the request or after the reading, the time of the reading stands, which is counted. `realtime` and
    `monotonic` are clocks in ns. Where stamps are not `asked` for, the time of the reading stands throughout.
    """

    def __init__(
        self,
        realtime: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        *,
        asked: bool = True,
    ) -> None:
        self._realtime, self._monotonic = realtime, monotonic
        self.asked = asked
        self.missing = self.refused = self.steps = 0
        """Readings without a stamp, with one that cannot be; steps of the clock."""
        self.send_error = Histogram()
        """Kernel's time of sending less the process's, of a sample of the interval's requests."""
        self._sends = array("q")
        self.offset = self.due = self._known = 0
        self._stamp_due = self._followed = self._distrusted_until = 0

    def came(self, channel: Stamped, stamp: int) -> int:
        """Return when the last bytes that a channel took had come, in ns of the monotonic clock.

        The function in C does the same where nothing is due and the stamp can be.
        """
        now = self._monotonic()
        if now >= self.due:
            self._follow(now)
            if now >= self._stamp_due:
                self._stamp_due = now + STAMP_NS
                channel.stamp_next_request()
        if not stamp:
            self.missing += 1
            return now
        came = stamp - self.offset
        if channel.sent <= came <= now:
            return came
        if channel.sent - ROUNDING_NS <= came <= now + ROUNDING_NS:
            return min(max(came, channel.sent), now)
        self.refused += 1
        return now

    def went(self, stamp: int, sent: int) -> bool:
        """Take the kernel's stamp (ns) of a request that the process sent at `sent`; False where it is an older one's.

        A stamp of 0 is another message of the kernel's.
        """
        if self._monotonic() >= self.due:
            self._follow(self._monotonic())
        if not stamp:
            return False
        went = stamp - self.offset
        if went < sent - ROUNDING_NS or self._monotonic() < self._distrusted_until:
            return False
        self._sends.extend((sent, went))
        return True

    def pack(self) -> list[Any]:
        """Return the counts and the send errors, for msgpack."""
        return [self.missing, self.refused, self.steps, self.send_error.pack()]

    def add(self, packed: Sequence[Any]) -> None:
        """Add what another process packed."""
        missing, refused, steps, send_error = packed
        self.missing += missing
        self.refused += refused
        self.steps += steps
        self.send_error.merge(Histogram.unpack(send_error))

    def flush(self, start: int, end: int) -> None:
        """Count the stamped sendings of an interval (ns)."""
        rows = np.array(self._sends, dtype=np.int64).reshape(-1, 2)
        del self._sends[:]
        rows = rows[(rows[:, 0] >= start) & (rows[:, 0] < end)]
        self.send_error.record(np.maximum(rows[:, 1] - rows[:, 0], 0))

    def _follow(self, now: int) -> None:
        """Measure the offset of the clocks; a change that is too fast for a slew is a step."""
        self.due = now + FOLLOW_NS
        offset, width = self._reading()
        for _ in range(TRIES):
            if width <= STEADY_NS:
                break
            again = self._reading()
            if again[1] < width:
                offset, width = again
        moved, passed = abs(offset - self._known), now - self._followed
        if self._followed and moved > MOST_SLEW * passed + width + JITTER_NS:
            self.steps += 1
            self._distrusted_until = now + DISTRUST_NS
        self._known, self._followed = offset, now
        # An offset of 0 puts each stamp decades after its reading, so that it is refused.
        self.offset = offset if now >= self._distrusted_until else 0

    def _reading(self) -> tuple[int, int]:
        """Return the offset, and the time that the reading of both clocks took (ns)."""
        before = self._monotonic()
        real = self._realtime()
        after = self._monotonic()
        return real - (before + after) // 2, after - before


def receiver_in_python(take: Callable[[int], tuple[bytes, int]], clock: KernelClock, channel: Stamped) -> Receive:
    """Return a function that receives what `take` returns: the bytes, and the stamp of the last of them."""

    def receiving(most: int, _sent: int) -> tuple[bytes, int]:
        data, stamp = take(most)
        return data, clock.came(channel, stamp) if data else 0

    return receiving
