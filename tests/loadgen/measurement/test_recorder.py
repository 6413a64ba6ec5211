"""The recorder's bounds: constant memory, a rare outlier found by its rank, the histogram's error of every slot."""

import math
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.driver.failures import MAX_MESSAGES
from loadgen.measurement.recorder import (
    COUNTING_NS,
    FLUSH_NS,
    MAX_GATHERED,
    MAX_SAMPLED_RESPONSES,
    PUT_OFF_NS,
    WIDTH,
    Recorder,
    Seconds,
)
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.stats.histogram import MAX_US, Histogram
from servemark.workload import Arrays, Tensor

S = 1_000_000_000
PAYLOAD, GOLDEN = Payload(b""), Payload(b"", (0,))


class NullAnswer:
    """An answer that is right."""

    error: str | None = None
    size = 256

    def message(self) -> str:
        return ""

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:  # noqa: ARG002 - the interface
        return {}


def drive(recorder: Recorder, first: int, last: int) -> None:
    """Outcomes 0.1 ms apart on a made-up clock: good ones, golden ones, and failures with messages of their own."""
    for number in range(first, last):
        due = number * MS // 10
        error = "timeout" if number % 10 == 3 else None
        payload, message = (GOLDEN if number % 10 == 7 else PAYLOAD), f"message {number}" if error else ""
        recorder.outcome(Outcome(payload, due, due + 1000, due + 2 * MS + number % 5000, error, message, NullAnswer()))
        if number % 100 == 0:
            recorder.tick(due)


def elements(recorder: Recorder) -> int:
    """Count the elements of all its containers."""
    sizes = [len(value) for value in vars(recorder).values() if hasattr(value, "__len__")]
    return sum(sizes) + sum(map(len, recorder.messages.values()))


def test_memory_does_not_grow_with_the_number_of_requests() -> None:
    recorder = Recorder(Interval(0, 4 * S, 4), least=10**9)  # prolonged again and again
    drive(recorder, 0, 100_000)
    held, blocks = elements(recorder), sys.getallocatedblocks()
    drive(recorder, 100_000, 300_000)
    grown = sys.getallocatedblocks() - blocks
    assert recorder.scheduled + len(recorder._raw) // WIDTH + len(recorder._failed) == 300_000
    assert len(recorder.windows) <= MAX_PROLONGED_WINDOWS
    assert len(recorder.sampled) == MAX_SAMPLED_RESPONSES
    assert len(recorder.messages["timeout"]) == MAX_MESSAGES
    waiting = 3 * FLUSH_NS * 10 // MS  # numbers of the requests that are counted at once
    assert elements(recorder) <= held + waiting + MAX_PROLONGED_WINDOWS
    assert grown < 20_000  # Python objects; one kept of every request would be 200,000


def test_many_answers_are_counted_before_the_time_is_up() -> None:
    """Counting all of 100,000/s after 250 ms would keep requests waiting."""
    recorder = Recorder(Interval(0, S, 1))
    recorder.tick(0)
    for count, counted in ((MAX_GATHERED - 1, 0), (1, MAX_GATHERED)):
        for _ in range(count):
            recorder.outcome(Outcome(PAYLOAD, MS, MS, 2 * MS, None, "", None))
        recorder.tick(MS)
        assert recorder.scheduled == counted


@pytest.mark.parametrize(
    ("due_ns", "counted_at"), [(None, FLUSH_NS), (COUNTING_NS, FLUSH_NS), (COUNTING_NS - 1, FLUSH_NS + PUT_OFF_NS)]
)
def test_answers_are_counted_where_no_request_is_due_meanwhile(due_ns: int | None, counted_at: int) -> None:
    recorder = Recorder(Interval(0, 9 * S, 1))
    recorder.tick(0)
    recorder.outcome(Outcome(PAYLOAD, MS, MS, 2 * MS, None, "", None))
    for now, counted in ((counted_at - 1, 0), (counted_at, 1)):
        recorder.tick(now, None if due_ns is None else now + due_ns)
        assert recorder.scheduled == counted


def test_seconds_grow_with_an_interval_that_is_prolonged() -> None:
    """The first answer of a cold start may take longer than the run was to last."""
    recorder = Recorder(Interval(0, 2 * S, 2, by_second=True), least=1)
    assert recorder.seconds is not None
    recorder.extend_if_short(5 * S)
    recorder.outcome(Outcome(PAYLOAD, 4 * S, 4 * S, 5 * S, None, "", NullAnswer()))
    recorder.outcome(Outcome(PAYLOAD, 4 * S, 4 * S, 5 * S, "timeout", "", None))
    recorder.flush()
    assert [(each["count"], each["errors"]) for each in recorder.seconds.figures(6, None)[3:5]] == [(0, 0), (1, 1)]
    planned = Seconds(Interval(0, 2 * S, 2))
    planned.add(recorder.seconds.pack())
    assert planned.count == recorder.seconds.count


def test_the_first_answer_is_the_one_that_came_first() -> None:
    recorder = Recorder(Interval(0, S, 1))
    for due_ms, done_ms, error in ((0, 50, "http_503"), (1, 90, None), (2, 80, None)):
        recorder.outcome(Outcome(PAYLOAD, due_ms * MS, due_ms * MS, done_ms * MS, error, "", None))
    recorder.flush()
    assert recorder.first_answer_ns == 78 * MS
    recorder.outcome(Outcome(PAYLOAD, 99 * MS, 99 * MS, 100 * MS, None, "", None))
    recorder.flush()
    assert recorder.first_answer_ns == 78 * MS


@pytest.mark.parametrize("requests", [1_001, 10_000, 10_989, 100_000])
def test_an_outlier_of_one_in_a_thousand_is_found_at_p99_9_exactly(requests: int) -> None:
    """Nearest rank: as soon as more than one in 1,000 is slow, p99.9 is slow, and with one fewer it is not."""
    allowed = requests // 1000

    def p99_9(slow: int) -> float:
        recorder = Recorder(Interval(0, S, 1))
        places = set(np.random.default_rng(requests).choice(requests, slow, replace=False).tolist())
        for number in range(requests):
            latency = 250 * MS if number in places else 2 * MS
            recorder.outcome(Outcome(PAYLOAD, number, number, number + latency, None, "", None))
        recorder.flush()
        assert recorder.latency.count_above(100) == slow
        return recorder.latency.percentile(99.9)

    assert p99_9(allowed) == pytest.approx(2, rel=ERROR)
    assert p99_9(allowed + 1) == pytest.approx(250, rel=ERROR)


ERROR = 1 / 2048
"""The histogram's bound: half of the width of a slot, of which each power of two has 1,024."""
ROUNDING_MS = 0.0005
"""Durations are counted in whole µs."""


def test_no_duration_is_off_by_more_than_the_stated_error() -> None:
    """The edges of slots in every power of two up to an hour, where the error is largest, and all of the first ms."""
    starts = [
        (base << power, (base + 1) << power) for power in range(22) for base in (1024, *range(1031, 2048, 127), 2047)
    ]
    values_us = sorted({v for low, high in starts for v in (low, high - 1) if v <= MAX_US} | set(range(1, 1025)))
    histogram = Histogram()
    histogram.record(np.array(values_us, np.int64) * 1000 + 499)  # the worst of the rounding to whole µs
    assert math.log2(values_us[-1]) > 31
    for rank, value_us in enumerate(values_us, 1):
        assert histogram.at_rank(rank) == pytest.approx(value_us / 1e3 + 0.000499, rel=ERROR, abs=ROUNDING_MS)
