"""A share of the requests is given up some time after they were sent, as clients do at their time-outs.

Which requests are given up is drawn before they are sent. So those that are measured are a random sample of all, and a
slow request is as likely among them as it was without cancellation.
"""

import random
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from loadgen.driver.event_loop import Driver
from loadgen.sut.channel import Channel, Outcome, Payload
from servemark.stats.histogram import Histogram

CANCELLED = "cancelled"
"""The kind of outcome; it is not a failure."""
MOST_IN_BLOCK = 1000
"""Longest block of requests in which the share is exact."""


@dataclass(frozen=True, slots=True)
class ToCancel(Payload):
    """A request that is given up where no answer comes in time."""


class Cancellation:
    """Marks a share of the requests, exact in each block: 5 % is one of 20, at a place that the seed draws."""

    def __init__(self, share: float, after_s: float, seed: str) -> None:
        self._share = Fraction(share).limit_denominator(MOST_IN_BLOCK)
        self._after_ns = round(after_s * 1e9)
        self._random = random.Random(seed)  # noqa: S311 - a sample, no secret
        self._words = f"given up {after_s:g} s after it was sent"

    def requests(self, whole: Iterator[Payload]) -> Iterator[Payload]:
        """The same requests, some of them marked."""
        length = self._share.denominator
        while True:
            places = {*self._random.sample(range(length), self._share.numerator)}
            for place in range(length):
                payload = next(whole)
                yield ToCancel(payload.request) if place in places else payload

    def act(self, driver: Driver, now: int) -> None:
        """Give up what is due; called every 5 ms."""

        def is_due(channel: Channel) -> bool:
            return type(channel.payload) is ToCancel and bool(channel.sent) and now - channel.sent >= self._after_ns

        driver.cancel(is_due, CANCELLED, self._words)


class CancellationRecorder:
    """Marked requests: those that were given up, and those that came to an end before."""

    def __init__(self) -> None:
        self.given_up = Histogram()
        """From their sending on."""
        self.answered = 0
        self.failed: Counter[str] = Counter()
        self.outside = 0
        """Marked requests that were not scheduled in the interval."""
        self._given_up = array("q")
        self._ended: list[tuple[int, str]] = []

    @property
    def requests(self) -> int:
        """Number of marked requests of the interval."""
        return self.given_up.count + self.answered + self.failed.total()

    def take(self, outcome: Outcome) -> None:
        """Take the outcome of a marked request."""
        if outcome.error == CANCELLED:
            self._given_up.extend((outcome.scheduled, outcome.sent, outcome.done))
        else:
            self._ended.append((outcome.scheduled, outcome.error or ""))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered of requests that were scheduled in an interval (ns)."""
        rows = np.array(self._given_up, dtype=np.int64).reshape(-1, 3)
        ended, self._ended = self._ended, []
        del self._given_up[:]
        inside = (rows[:, 0] >= start) & (rows[:, 0] < end)
        self.outside += int((~inside).sum())
        self.given_up.record((rows[:, 2] - rows[:, 1])[inside])
        for scheduled, kind in ended:
            if not start <= scheduled < end:
                self.outside += 1
            elif kind:
                self.failed[kind] += 1
            else:
                self.answered += 1
