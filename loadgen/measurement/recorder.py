"""Records every request's outcome in constant memory: histograms, windows, errors by kind, sampled outputs."""

import math
import random
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.driver.connections import MS
from loadgen.driver.observers import MAX_MESSAGES
from loadgen.load.warm_up import WarmUp
from loadgen.measurement.windows import Interval, Window, window_figures
from loadgen.sut.channel import Answer, Outcome, Times
from loadgen.sut.kernel_clock import KernelClock
from loadgen.variants.cancellation import CancellationRecorder
from loadgen.variants.decoupled import AnswerRecorder
from loadgen.variants.sequences import SequenceRecorder
from loadgen.variants.servers import ServerRecorder
from servemark.figures.evidence import ConnectionTimes
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.results.schema.details import WindowFigures
from servemark.stats.histogram import MAX_US, Histogram

S = 1_000_000_000
MAX_SECONDS = 3600
"""A longer trace has windows of 2 s, 3 s and so on, so that a result stays readable."""
Ns = npt.NDArray[np.int64]
FLUSH_NS = 250 * MS
"""Outcomes are gathered raw and counted at this interval: one vectorised step costs less than a call for each.

Counting few takes 0.6 ms, in which a request may be due. It is therefore put off until none is for COUNTING_NS.
"""
COUNTING_NS = MS
PUT_OFF_NS = 1000 * MS
"""The longest time for which it is put off."""
FAILED_FLUSH_NS = 50 * MS
"""The interval where requests fail: each is held with its server's words, which may be long."""
MAX_GATHERED = 8192
"""Right answers that are counted whatever is due: of more it would take longer than other ticks, 2 ms."""
LATE_NS = MS
"""A request sent later than this after its schedule counts as late."""
MAX_SAMPLED_RESPONSES = 200
"""Maximum number of sampled responses kept for the comparison with the golden outputs."""


WIDTH = 4
"""Numbers in `Times`."""

Waited = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]


class Seconds:
    """Latencies, answers and failures of a trace by the second.

    Each latency is kept in 4 bytes, which the length of a trace bounds: 3,600 histograms would take half a gigabyte.
    """

    def __init__(self, interval: Interval) -> None:
        self._start, whole_ns = interval.start, interval.end - interval.start
        self._length_ns = S * max(1, -(-whole_ns // (MAX_SECONDS * S)))
        self.count = -(-whole_ns // self._length_ns)
        """Number of its windows."""
        self._latencies_us = [array("I") for _ in range(self.count)]
        self._completed, self._errors = np.zeros((2, self.count), np.int64)

    @property
    def starts_ns(self) -> list[int]:
        """Return the start of each of its windows, from the start of the interval."""
        return [place * self._length_ns for place in range(self.count)]

    def came(self, done: Ns) -> None:
        """Count good answers by the time at which they came, inside the interval."""
        self._completed += np.bincount(self._of(done), minlength=self.count)

    def failed(self, scheduled: int) -> None:
        """Count a failed request by its scheduled time."""
        self._errors[(scheduled - self._start) // self._length_ns] += 1

    def measured(self, scheduled: Ns, latency_ns: Ns) -> None:
        """Keep good requests' latencies by their scheduled time."""
        places = self._of(scheduled)
        rounded = np.minimum((latency_ns + 500) // 1000, MAX_US).astype(np.uint32)
        for place in np.unique(places):
            self._latencies_us[place].frombytes(rounded[places == place].tobytes())

    def figures(self, measured_s: float, limit_ms: float | None) -> list[WindowFigures]:
        """The windows that have begun; `limit_ms` is the latency objective's."""
        out = []
        length_s = self._length_ns / S
        for place, latencies in enumerate(self._latencies_us):
            start_s = place * length_s
            if start_s >= measured_s:
                break
            latency = Histogram()
            latency.record(np.frombuffer(latencies, np.uint32).astype(np.int64) * 1000)
            completed, errors = int(self._completed[place]), int(self._errors[place])
            latency.failed = errors
            passed_s = min(length_s, measured_s - start_s)
            out.append(window_figures(start_s, passed_s, latency, completed, errors, limit_ms))
        return out

    def pack(self) -> list[Any]:
        """All of it as msgpack can hold it."""
        latencies = [latencies.tobytes() for latencies in self._latencies_us]
        return [latencies, self._completed.tolist(), self._errors.tolist()]

    def add(self, packed: Sequence[Any]) -> None:
        """Count what another process has packed, of an interval that began alike."""
        latencies, completed, errors = packed
        self._hold(len(latencies))
        for ours, theirs in zip(self._latencies_us, latencies, strict=False):
            ours.frombytes(theirs)
        self._completed[: len(completed)] += np.array(completed, np.int64)
        self._errors[: len(errors)] += np.array(errors, np.int64)

    def prolong(self, end: int) -> None:
        """Hold the seconds of an interval that was prolonged."""
        self._hold(-(-(end - self._start) // self._length_ns))

    def _hold(self, count: int) -> None:
        more = max(count - self.count, 0)
        self._latencies_us += [array("I") for _ in range(more)]
        self._completed, self._errors = (np.pad(each, (0, more)) for each in (self._completed, self._errors))
        self.count += more

    def _of(self, times: Ns) -> Ns:
        return (times - self._start) // self._length_ns


def _nobody(scheduled: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.zeros(len(scheduled), dtype=np.bool_)


class Recorder:
    """Takes outcomes and sorts them into the measured interval by their scheduled time.

    A request belongs to the interval in which it was *scheduled*, however late its answer comes: a stalled server
    cannot push its slow requests out of the record. Throughput counts the good responses that *came* in the interval.
    Latency is done - scheduled, service time done - sent, schedule delay sent - scheduled. A failed request is counted
    by its kind: it has no times, and counts as longer than every other request.

    An interval that has to hold `least` outcomes is prolonged by whole windows until it does, or until `end_at` says
    when it ends. `waited` says which of some scheduled requests were held back by --max-in-flight. `warm_up` sees what
    was answered before the interval.
    """

    def __init__(
        self, interval: Interval, least: float = 0, waited: Waited = _nobody, warm_up: WarmUp | None = None
    ) -> None:
        self.interval = interval
        self.warm_up = warm_up
        self._waited = waited
        self._least = least
        self._end_at = math.inf
        self._decided = False
        self.latency, self.service_time, self.schedule_delay = Histogram(), Histogram(), Histogram()
        self.waited_delay = Histogram()
        """The part of the schedule delays of requests that waited for --max-in-flight."""
        self.windows = [Window() for _ in range(interval.windows)]
        self.seconds = Seconds(interval) if interval.by_second else None
        self.errors: Counter[str] = Counter()
        self.messages: dict[str, list[str]] = {}
        self.sampled: list[tuple[tuple[int, ...], Answer]] = []
        self.late = 0
        self.completed = 0
        self.scheduled = 0
        self.unsent = 0
        """Failed requests of the interval that never went out."""
        self.outside = 0
        self.in_flight_at_start = 0
        self.first_answer_ns: int | None = None
        """Latency of the interval's request that was answered first."""
        self.longest_pause_ns = 0
        """Longest time of the interval in which nothing was sent or read."""
        self.sequences: SequenceRecorder | None = None
        self.answers: AnswerRecorder | None = None
        self.servers: ServerRecorder | None = None
        self.connection_times: ConnectionTimes | None = None
        self.clock: KernelClock | None = None
        self.answered = 0
        """Right answers of the whole run, those outside the interval too."""
        self.cancelled: CancellationRecorder | None = None
        self._golden_seen = 0
        self._random = random.Random(0)  # noqa: S311 - a sample, no secret
        self._raw = array("q")
        self.on_good: Callable[[Times], object] = self._raw.extend
        """Take the times of a right answer; the hot path, and one call: a Ctrl-C cannot leave a part of it behind."""
        self.on_counted: Callable[[npt.NDArray[np.int64]], object] | None = None
        """Sees the rows of times of right answers when they are counted."""
        self._failed: list[Outcome] = []
        self._flushed = -FLUSH_NS

    def begin_at(self, start_ns: int) -> None:
        """Have the interval, which has not begun, begin at another time to come."""
        self.interval = self.interval.begun_at(start_ns)
        if self.seconds is not None:
            self.seconds = Seconds(self.interval)

    def extend_if_short(self, now: int) -> None:
        """Go on for whole windows where the interval has passed and does not hold enough outcomes yet."""
        while now >= self.interval.end and not self._decided:
            if self._long_enough():
                self._decided = True
            else:
                if self.interval.windows == MAX_PROLONGED_WINDOWS:
                    self.windows = Window.paired(self.windows)
                self.windows.append(Window())
                self.interval = self.interval.prolonged
                if self.seconds is not None:
                    self.seconds.prolong(self.interval.end)

    def is_over(self, now: int) -> bool:
        """Return True if the interval has passed and will not be prolonged."""
        return now >= self.interval.end and (self._decided or self._long_enough())

    def end_at(self, end_ns: int) -> None:
        """Let the interval end with the window in which this time lies."""
        self._end_at = end_ns

    def _long_enough(self) -> bool:
        """Return True if the interval ends here: as configured, or because it holds enough outcomes."""
        start, end = self.interval.start, self.interval.end
        missing = self._least - self.scheduled
        if end >= self._end_at or missing <= 0:
            return True
        if missing > len(self._raw) // WIDTH + len(self._failed):
            return False
        gathered = sum(start <= scheduled < end for scheduled in self._raw[::WIDTH])
        failed = sum(start <= outcome.scheduled < end for outcome in self._failed)
        return gathered + failed >= missing

    def outcome(self, outcome: Outcome) -> None:
        """Take one outcome."""
        if outcome.error is None:
            response = outcome.response
            self.on_good((outcome.scheduled, outcome.sent, outcome.done, response.size if response else 0))
            if outcome.payload.golden_rows and response:
                self._sample(outcome.payload.golden_rows, response)
        else:
            self._failed.append(outcome)

    def _sample(self, golden_rows: tuple[int, ...], response: Answer) -> None:
        """Keep an even sample of the whole run (Vitter 1985, algorithm R), not its first seconds."""
        self._golden_seen += 1
        if len(self.sampled) < MAX_SAMPLED_RESPONSES:
            self.sampled.append((golden_rows, response))
        elif (place := self._random.randrange(self._golden_seen)) < MAX_SAMPLED_RESPONSES:
            self.sampled[place] = (golden_rows, response)

    def tick(self, now: int, due: int | None = None) -> None:
        """Count what has been gathered, when it is time, and no request is `due` meanwhile."""
        # First whether the interval goes on: what came since its end then belongs to it.
        self.extend_if_short(now)
        over = now - self._flushed - (FAILED_FLUSH_NS if self._failed else FLUSH_NS)
        free = due is None or due - now >= COUNTING_NS
        if (over >= 0 and (free or over >= PUT_OFF_NS)) or len(self._raw) >= MAX_GATHERED * WIDTH:
            self.flush()
            self._flushed = now

    def flush(self) -> None:
        """Count what has been gathered."""
        failed, self._failed = self._failed, []
        if failed:
            # Of all at once: in an overload thousands fail in a second.
            windows = self.interval.window_of(np.array([outcome.scheduled for outcome in failed]))
            for outcome, window in zip(failed, windows.tolist(), strict=True):
                self._count_failure(outcome, window)
        for each in (self.sequences, self.answers, self.servers, self.connection_times, self.cancelled, self.clock):
            if each is not None:
                each.flush(self.interval.start, self.interval.end)
        if not self._raw:
            return
        # A copy: the array cannot grow while numpy looks at its buffer.
        rows = np.array(self._raw, dtype=np.int64).reshape(-1, WIDTH)
        del self._raw[:]
        self.answered += len(rows)
        if self.on_counted is not None:
            self.on_counted(rows)
        scheduled, done = rows[:, 0], rows[:, 2]
        start, end = self.interval.start, self.interval.end
        came = (done >= start) & (done < end)
        self.completed += int(came.sum())
        self.in_flight_at_start += int(((scheduled < start) & (done >= start)).sum())
        for index, count in _counts(self.interval.window_of(done[came])):
            self.windows[index].completed += count
        if self.seconds is not None:
            self.seconds.came(done[came])
        if self.warm_up is not None:
            early = done < start
            self.warm_up.take(done[early], (done - scheduled)[early])
        inside = (scheduled >= start) & (scheduled < end)
        self.outside += int((~inside).sum())
        self._measure(rows[inside])

    def _measure(self, rows: npt.NDArray[np.int64]) -> None:
        scheduled, sent, done = rows[:, 0], rows[:, 1], rows[:, 2]
        latency = done - scheduled
        if self.first_answer_ns is None and len(rows):
            self.first_answer_ns = int(latency[done.argmin()])
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
        if self.seconds is not None:
            self.seconds.measured(scheduled, latency)

    def _count_failure(self, outcome: Outcome, in_window: int) -> None:
        if not self.interval.start <= outcome.scheduled < self.interval.end:
            self.outside += 1
            return
        kind = outcome.error or ""
        self.scheduled += 1
        self.unsent += not outcome.sent
        self.errors[kind] += 1
        window = self.windows[in_window]
        window.scheduled += 1
        window.errors += 1
        for times in (self.latency, self.service_time, window.latency):
            times.failed += 1
        if self.seconds is not None:
            self.seconds.failed(outcome.scheduled)
        messages = self.messages.setdefault(kind, [])
        if outcome.message and outcome.message not in messages and len(messages) < MAX_MESSAGES:
            messages.append(outcome.message)


def _counts(indices: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    values, counts = np.unique(indices, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
