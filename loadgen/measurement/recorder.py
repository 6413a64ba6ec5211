"""Records every request's outcome in constant memory: histograms, windows, errors by kind, sampled outputs."""

import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.driver.event_loop import MS
from loadgen.sut.channel import Answer, Outcome
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import samples_needed

FLUSH_NS = 50 * MS
"""Outcomes are gathered raw and counted at this interval: one vectorised step costs less than a call for each."""
LATE_NS = MS
"""A request sent later than this after its schedule counts as late."""
MAX_SAMPLED_RESPONSES = 200
"""How many sampled responses are kept for the comparison with the golden outputs."""
MAX_WINDOWS = 10
"""An interval that is prolonged beyond so many windows goes on in windows twice as long."""
MAX_MESSAGES = 5
"""How many different messages of each kind of error are kept."""


@dataclass(frozen=True)
class Interval:
    """The measured part of a run and its windows, in ns of the monotonic clock."""

    start: int
    end: int
    windows: int
    edges: tuple[int, ...] = ()
    """Boundaries of the windows, the interval's own included, where they are not of equal length."""

    @property
    def window_ns(self) -> float:
        """Mean length of a window."""
        return (self.end - self.start) / self.windows

    def window(self, index: int) -> tuple[float, float]:
        """Start and length of a window in seconds, from the interval's start."""
        if self.edges:
            first, last = self.edges[index : index + 2]
            return (first - self.start) / 1e9, (last - first) / 1e9
        return index * self.window_ns / 1e9, self.window_ns / 1e9

    def window_of(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The window of each time inside the interval."""
        if self.edges:
            index = np.searchsorted(np.array(self.edges), times, side="right") - 1
        else:
            index = ((times - self.start) / self.window_ns).astype(np.int64)
        return np.minimum(index, self.windows - 1)

    @property
    def joined(self) -> "Interval":
        """The same with half as many windows."""
        return replace(self, windows=self.windows // 2)

    @property
    def prolonged(self) -> "Interval":
        """One window longer; where there are too many, neighbours are joined first."""
        base = self.joined if self.windows == MAX_WINDOWS else self
        windows = base.windows + 1
        return replace(base, end=self.start + round(base.window_ns * windows), windows=windows)


@dataclass
class Window:
    """What was scheduled in one window."""

    latency: Histogram = field(default_factory=Histogram)
    completed: int = 0
    scheduled: int = 0
    errors: int = 0

    def add(self, other: "Window") -> None:
        """Count what another one counted."""
        self.latency.merge(other.latency)
        self.completed += other.completed
        self.scheduled += other.scheduled
        self.errors += other.errors

    @classmethod
    def joined(cls, windows: Sequence["Window"]) -> "Window":
        """Neighbouring windows as one."""
        whole = cls()
        for window in windows:
            whole.add(window)
        return whole

    @classmethod
    def paired(cls, windows: Sequence["Window"]) -> list["Window"]:
        """Half as many, twice as long."""
        return [cls.joined(windows[first : first + 2]) for first in range(0, len(windows), 2)]

    def to_dict(self, start_s: float, length_s: float) -> dict[str, Any]:
        """As result.json holds it; `requests_per_s` counts the responses that came in this window."""
        enough = {p: self.latency.count >= samples_needed(p) for p in (50, 99)}
        return {
            "start_s": round(start_s, 6),
            "requests_per_s": self.completed / length_s,
            "p50_ms": self.latency.percentile(50) if enough[50] else None,
            "p99_ms": self.latency.percentile(99) if enough[99] else None,
            "errors": self.errors,
        }


Waited = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


def _nobody(scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.zeros(len(scheduled), dtype=np.bool_)


class Recorder:
    """Takes outcomes and sorts them into the measured interval by their scheduled time.

    A request belongs to the interval in which it was *scheduled*, however late its answer comes: a stalled server
    cannot push its slow requests out of the record. Throughput counts the good responses that *came* in the interval.
    Latency is done - scheduled, service time done - sent, schedule delay sent - scheduled. A failed request is counted
    by its kind and enters none of them.

    An interval that has to hold `least` outcomes is prolonged by whole windows until it does, or until `end_at` says
    when it ends (`over`). `waited` says which of some scheduled requests were held back by --max-in-flight.
    """

    def __init__(self, interval: Interval, least: float = 0, waited: Waited = _nobody) -> None:
        self.interval = interval
        self._waited = waited
        self._least = least
        self._end_at = math.inf
        self._over = False
        self.latency, self.service_time, self.schedule_delay = Histogram(), Histogram(), Histogram()
        self.waited_delay = Histogram()
        """The part of the schedule delays of requests that waited for --max-in-flight."""
        self.windows = [Window() for _ in range(interval.windows)]
        self.errors: Counter[str] = Counter()
        self.messages: dict[str, list[str]] = {}
        self.sampled: list[tuple[tuple[int, ...], Answer]] = []
        self.late = 0
        self.completed = 0
        self.scheduled = 0
        self.outside = 0
        self.in_flight_at_start = 0
        self._golden_seen = 0
        self._random = random.Random(0)  # noqa: S311 - a sample, no secret
        self._raw = array("q")
        self._next_flush = 0

    def over(self, now: int) -> bool:
        """Whether the interval has passed; where it has not, it lasts beyond `now`."""
        while now >= self.interval.end and not self._over:
            if self.interval.end >= self._end_at or self._outcomes_inside() >= self._least:
                self._over = True
            else:
                self._prolong()
        return now >= self.interval.end

    def end_at(self, end_ns: int) -> None:
        """Let the interval end with the window in which this time lies."""
        self._end_at = end_ns

    def _outcomes_inside(self) -> int:
        """Requests of the interval that have their outcome, counted already or not."""
        return self.scheduled + sum(scheduled >= self.interval.start for scheduled in self._raw[::3])

    def _prolong(self) -> None:
        """Go on for a window."""
        if self.interval.windows == MAX_WINDOWS:
            self.windows = Window.paired(self.windows)
        self.windows.append(Window())
        self.interval = self.interval.prolonged

    def outcome(self, outcome: Outcome) -> None:
        """Take one outcome; the hot path."""
        if outcome.error is None:
            # One call: a Ctrl-C cannot leave a part of it behind.
            self._raw.extend((outcome.scheduled, outcome.sent, outcome.done))
            if outcome.payload.golden_rows and outcome.response:
                self._sample(outcome.payload.golden_rows, outcome.response)
        else:
            self._failure(outcome)

    def _sample(self, golden_rows: tuple[int, ...], response: Answer) -> None:
        """Keep an even sample of the whole run (Vitter 1985, algorithm R), not its first seconds."""
        self._golden_seen += 1
        if len(self.sampled) < MAX_SAMPLED_RESPONSES:
            self.sampled.append((golden_rows, response))
        elif (place := self._random.randrange(self._golden_seen)) < MAX_SAMPLED_RESPONSES:
            self.sampled[place] = (golden_rows, response)

    def tick(self, now: int) -> None:
        """Count what has been gathered, when it is time."""
        # First whether the interval goes on: what came since its end then belongs to it.
        self.over(now)
        if now >= self._next_flush:
            self.flush()
            self._next_flush = now + FLUSH_NS

    def flush(self) -> None:
        """Count what has been gathered."""
        if not self._raw:
            return
        # A copy: the array cannot grow while numpy looks at its buffer.
        rows = np.array(self._raw, dtype=np.int64).reshape(-1, 3)
        del self._raw[:]
        scheduled, done = rows[:, 0], rows[:, 2]
        start, end = self.interval.start, self.interval.end
        came = (done >= start) & (done < end)
        self.completed += int(came.sum())
        self.in_flight_at_start += int(((scheduled < start) & (done >= start)).sum())
        for index, count in _counts(self.interval.window_of(done[came])):
            self.windows[index].completed += count
        inside = (scheduled >= start) & (scheduled < end)
        self.outside += int((~inside).sum())
        self._measure(rows[inside])

    def _measure(self, rows: npt.NDArray[np.int64]) -> None:
        scheduled, sent, done = rows[:, 0], rows[:, 1], rows[:, 2]
        latency = done - scheduled
        self.scheduled += len(rows)
        self.latency.record(latency)
        self.service_time.record(done - sent)
        self.schedule_delay.record(sent - scheduled)
        waited = self._waited(scheduled)
        if waited.any():
            self.waited_delay.record((sent - scheduled)[waited])
        self.late += int((sent - scheduled > LATE_NS).sum())
        indices = self.interval.window_of(scheduled)
        for index, count in _counts(indices):
            self.windows[index].scheduled += count
            self.windows[index].latency.record(latency[indices == index])

    def _failure(self, outcome: Outcome) -> None:
        if not self.interval.start <= outcome.scheduled < self.interval.end:
            self.outside += 1
            return
        kind = outcome.error or ""
        self.scheduled += 1
        self.errors[kind] += 1
        window = self.windows[self.interval.window_of(np.array([outcome.scheduled]))[0]]
        window.scheduled += 1
        window.errors += 1
        messages = self.messages.setdefault(kind, [])
        if outcome.message and outcome.message not in messages and len(messages) < MAX_MESSAGES:
            messages.append(outcome.message)


def _counts(indices: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    values, counts = np.unique(indices, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
