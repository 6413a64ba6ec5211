"""The recorder: each outcome in its interval, window and second, in constant memory; the error of each slot."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.driver.observers import MAX_MESSAGES
from loadgen.measurement.recorder import (
    COUNTING_NS,
    FLUSH_NS,
    MAX_GATHERED,
    MAX_SAMPLED_RESPONSES,
    MAX_SECONDS,
    PUT_OFF_NS,
    WIDTH,
    Recorder,
    Seconds,
)
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.results.constraints import MAX_PROLONGED_WINDOWS
from servemark.stats.histogram import MAX_US, Histogram
from tests.loadgen.measurement.test_output_agreement import Golds
from tests.support.measured import answered, load_result, outcome
from tests.support.result_checks import check_schema

S = 1_000_000_000
PAYLOAD, GOLDEN = Payload(b""), Payload(b"", (0,))


def test_a_few_different_messages_of_each_kind_are_kept() -> None:
    recorder = Recorder(Interval(0, S, 1))
    for number in range(100):
        recorder.outcome(outcome(number, 0, S, "http_500", f"message {number // 10}"))
    recorder.flush()
    assert (recorder.errors, recorder.messages) == ({"http_500": 100}, {"http_500": MESSAGES})


MESSAGES = [f"message {number}" for number in range(MAX_MESSAGES)]


def test_a_request_belongs_to_the_interval_it_was_scheduled_in() -> None:
    interval = Interval(10 * S, 20 * S, 10)
    recorder = Recorder(interval)
    for scheduled, done in [(9, 11), (9, 9), (10, 10), (12, 13), (19, 25), (20, 21), (8, 30)]:
        recorder.outcome(outcome(scheduled * S, scheduled * S + 5, done * S + 7))
    recorder.outcome(outcome(9 * S, 0, 12 * S, "timeout"))
    recorder.outcome(outcome(15 * S, 0, 16 * S, "timeout"))
    recorder.outcome(outcome(20 * S, 0, 21 * S, "timeout"))
    recorder.flush()
    recorder.flush()
    assert (recorder.scheduled, recorder.latency.count, recorder.errors) == (4, 3, {"timeout": 1})
    assert (recorder.completed, recorder.in_flight_at_start, recorder.outside) == (3, 2, 6)
    assert recorder.latency.max_ns == 6 * S + 7
    assert recorder.service_time.max_ns == 6 * S + 2
    assert (recorder.schedule_delay.min_ns, recorder.schedule_delay.max_ns, recorder.late) == (5, 5, 0)
    assert [w.scheduled for w in recorder.windows] == [1, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert [w.completed for w in recorder.windows] == [1, 1, 0, 1, 0, 0, 0, 0, 0, 0]
    assert [w.errors for w in recorder.windows] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_every_request_is_in_exactly_one_window() -> None:
    start = 12_345_678_901_234
    recorder = Recorder(Interval(start, start + 7 * S + 3, 7))
    scheduled = np.random.default_rng(0).integers(start, start + 7 * S + 3, 5000)
    for number, at in enumerate([start, start + 7 * S + 2, *scheduled.tolist()]):
        recorder.outcome(outcome(at, at + 2 * MS, at + 3 * MS, "timeout" if number % 9 == 5 else None))
        if number % 100 == 0:
            recorder.tick(number * S)
    recorder.flush()
    assert recorder.scheduled == 5002 == sum(window.scheduled for window in recorder.windows)
    assert sum(window.latency.count for window in recorder.windows) == recorder.latency.count == recorder.late
    assert sum(window.completed for window in recorder.windows) == recorder.completed


def test_an_interval_is_prolonged_by_windows_until_it_holds_enough_outcomes() -> None:
    recorder = Recorder(Interval(10 * S, 15 * S, 5), least=2)

    def over(now: int) -> bool:
        recorder.extend_if_short(now)
        return recorder.is_over(now)

    assert not over(15 * S - 1)
    recorder.outcome(outcome(9 * S, 9 * S, 15 * S))  # scheduled in the warm-up: no outcome of the interval
    assert not recorder.is_over(15 * S)
    assert recorder.interval == Interval(10 * S, 15 * S, 5)  # asking changes nothing
    assert not over(15 * S)
    assert recorder.interval == Interval(10 * S, 16 * S, 6)
    assert not over(16 * S)
    assert not over(17 * S)
    recorder.outcome(outcome(15 * S, 15 * S, 17 * S + 1))
    recorder.outcome(outcome(15 * S, 15 * S, 17 * S + 2, "timeout"))
    recorder.tick(17 * S + 3)
    assert not over(18 * S - 1)
    assert recorder.is_over(18 * S)
    assert over(18 * S)
    recorder.outcome(outcome(17 * S, 17 * S, 30 * S))
    assert over(30 * S)
    recorder.flush()
    assert recorder.interval == Interval(10 * S, 18 * S, 8)
    assert [w.scheduled for w in recorder.windows] == [0, 0, 0, 0, 0, 2, 0, 1]
    assert [w.completed for w in recorder.windows] == [0, 0, 0, 0, 0, 1, 0, 1]
    assert (recorder.scheduled, recorder.completed, recorder.in_flight_at_start) == (3, 2, 1)


def test_what_was_sent_while_the_interval_was_not_yet_prolonged_belongs_to_it() -> None:
    recorder = Recorder(Interval(0, 2 * S, 2), least=3)
    for error in (None, "timeout"):
        recorder.outcome(outcome(2 * S + 1, 2 * S + 1, 2 * S + 2, error))
    recorder.tick(2 * S + 3)
    recorder.outcome(outcome(2 * S + 4, 2 * S + 4, 2 * S + 5))
    recorder.tick(3 * S)
    recorder.flush()
    assert (recorder.interval.end, recorder.scheduled, recorder.outside) == (3 * S, 3, 0)
    assert [(w.scheduled, w.errors) for w in recorder.windows] == [(0, 0), (0, 0), (3, 1)]


def test_windows_of_a_long_prolonged_interval_are_joined_and_lose_nothing() -> None:
    recorder = Recorder(Interval(0, 4 * S, 4), least=1000)
    seconds = 300
    for second in range(seconds):
        recorder.tick(second * S)
        recorder.outcome(outcome(second * S, second * S, (second + 1) * S - 1, "timeout" if second % 7 == 0 else None))
    recorder.flush()
    length = recorder.interval.window_ns / S
    assert length in (1, 2, 4, 8, 16, 32)
    assert 7 < len(recorder.windows) == recorder.interval.windows <= 14
    assert 0 < recorder.interval.end / S - seconds + 1 <= length
    whole, part = divmod(seconds, round(length))
    assert [w.scheduled for w in recorder.windows] == [length] * whole + [part] * bool(part)
    assert sum(w.errors for w in recorder.windows) == recorder.errors.total() == 43
    assert sum(w.completed for w in recorder.windows) == recorder.completed == seconds - 43
    assert sum(w.latency.count for w in recorder.windows) == recorder.latency.count == seconds - 43


def test_golden_answers_are_sampled_over_the_whole_run() -> None:
    recorder, span = Recorder(Interval(0, S, 1)), 20 * MAX_SAMPLED_RESPONSES
    for number in range(span):
        recorder.outcome(Outcome(Payload(b"", (number,)), 1, 1, 1, None, "", Golds()))
    kept = sorted(rows[0] for rows, _ in recorder.sampled)
    assert len(set(kept)) == MAX_SAMPLED_RESPONSES
    # the mean of an even sample, within four standard errors
    assert np.mean(kept) == pytest.approx(span / 2, abs=4 * span / np.sqrt(12 * MAX_SAMPLED_RESPONSES))


def drive(recorder: Recorder, first: int, last: int) -> None:
    """Outcomes 0.1 ms apart on a made-up clock: good ones, golden ones, and failures with messages of their own."""
    for number in range(first, last):
        due = number * MS // 10
        error = "timeout" if number % 10 == 3 else None
        payload, message = (GOLDEN if number % 10 == 7 else PAYLOAD), f"message {number}" if error else ""
        recorder.outcome(Outcome(payload, due, due + 1000, due + 2 * MS + number % 5000, error, message, Golds()))
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
            recorder.outcome(outcome(MS, MS, 2 * MS))
        recorder.tick(MS)
        assert recorder.scheduled == counted


@pytest.mark.parametrize(
    ("due_ns", "counted_at"), [(None, FLUSH_NS), (COUNTING_NS, FLUSH_NS), (COUNTING_NS - 1, FLUSH_NS + PUT_OFF_NS)]
)
def test_answers_are_counted_where_no_request_is_due_meanwhile(due_ns: int | None, counted_at: int) -> None:
    recorder = Recorder(Interval(0, 9 * S, 1))
    recorder.tick(0)
    recorder.outcome(outcome(MS, MS, 2 * MS))
    for now, counted in ((counted_at - 1, 0), (counted_at, 1)):
        recorder.tick(now, None if due_ns is None else now + due_ns)
        assert recorder.scheduled == counted


def test_seconds_grow_with_an_interval_that_is_prolonged() -> None:
    """The first answer of a cold start may take longer than the run was to last."""
    recorder = Recorder(Interval(0, 2 * S, 2, by_second=True), least=1)
    assert recorder.seconds is not None
    recorder.extend_if_short(5 * S)
    recorder.outcome(outcome(4 * S, 4 * S, 5 * S))
    recorder.outcome(outcome(4 * S, 4 * S, 5 * S, "timeout"))
    recorder.flush()
    assert [(each["count"], each["errors"]) for each in recorder.seconds.figures(6, None)[3:5]] == [(0, 0), (1, 1)]
    planned = Seconds(Interval(0, 2 * S, 2))
    planned.add(recorder.seconds.pack())
    assert planned.count == recorder.seconds.count


def test_the_first_answer_is_the_one_that_came_first() -> None:
    recorder = Recorder(Interval(0, S, 1))
    for due_ms, done_ms, error in ((0, 50, "http_503"), (1, 90, None), (2, 80, None)):
        recorder.outcome(outcome(due_ms * MS, due_ms * MS, done_ms * MS, error))
    recorder.flush()
    assert recorder.first_answer_ns == 78 * MS
    recorder.outcome(outcome(99 * MS, 99 * MS, 100 * MS))
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
            recorder.outcome(outcome(number, number, number + latency))
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


LIMIT_MS = 20.0
KEYS = {"p50_ms": 50, "p90_ms": 90, "p95_ms": 95, "p99_ms": 99}
NEEDED = {"p50_ms": 20, "p90_ms": 100, "p95_ms": 200, "p99_ms": 1000}


def outcomes(rates: list[int], seed: int = 3) -> list[Outcome]:
    """Make `rates` requests in the seconds, after one second of warm-up; one in fifty fails."""
    rng = np.random.default_rng(seed)
    due = np.concatenate([1 + second + np.sort(rng.random(rate)) for second, rate in enumerate(rates)])
    took = rng.lognormal(np.log(0.01), 0.8, len(due))
    return [
        answered(float(at), float(latency), "http_503" if number % 50 == 7 else None)
        for number, (at, latency) in enumerate(zip(due, took, strict=True))
    ]


def traced(tmp_path: Path, given: list[Outcome], *flags: str, **seen: Any) -> Any:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{outcome.scheduled / S - 1:.9f}\n" for outcome in given))
    return load_result(["--arrival-trace", str(trace), "--warmup", "1", *flags], given, **seen)


def test_each_second_has_what_its_requests_support(tmp_path: Path) -> None:
    given = outcomes([5, 30, 150, 250, 1500, 0, 40])
    found = traced(tmp_path, given, "--slo", "p99:20")
    check_schema(found)
    assert [window["start_s"] for window in found["windows"]] == [0, 1, 2, 3, 4, 5, 6]
    for second, window in enumerate(found["windows"]):
        own = [each for each in given if second <= each.scheduled / S - 1 < second + 1]
        good = np.sort([(each.done - each.scheduled) / 1e6 for each in own if each.error is None])
        all_of_them = np.concatenate([good, np.full(len(own) - len(good), np.inf)])  # one that failed: never answered
        came = [each for each in given if each.error is None and second <= each.done / S - 1 < second + 1]
        assert (window["count"], window["errors"]) == (len(good), len(own) - len(good))
        assert window["requests_per_s"] == len(came)
        assert window["over_slo"] == (good > LIMIT_MS).sum() + window["errors"]
        for key, percentile in KEYS.items():
            value = all_of_them[-(-len(own) * percentile // 100) - 1] if len(own) >= NEEDED[key] else None
            if value is None:
                assert window[key] is None
                assert window[f"{key}_reason"] == f"needs {NEEDED[key]} requests, has {len(own)}"
            elif value == np.inf:
                assert window[key] is None
                assert "failed" in window[f"{key}_reason"]
            else:
                assert window[key] == pytest.approx(value, rel=1e-3)
        assert window["max_ms"] == (pytest.approx(good[-1], rel=1e-3) if len(good) else None)
    assert sum(window["over_slo"] for window in found["windows"]) == found["verdict"]["objectives"][0]["shown"]["over"]


def test_a_trace_that_was_cut_short_has_the_seconds_that_had_begun(tmp_path: Path) -> None:
    found = traced(tmp_path, outcomes([40] * 5), measured_s=2.5, interrupted="stopped")
    check_schema(found)
    assert [window["start_s"] for window in found["windows"]] == [0, 1, 2]
    assert found["windows"][0]["over_slo_reason"] == "no latency objective: --slo"


def test_a_long_trace_has_longer_windows() -> None:
    interval = Interval(0, (2 * MAX_SECONDS + 1) * S, 10, by_second=True)
    seconds = Seconds(interval)
    seconds.measured(np.array([0, 3 * S, interval.end - 1]), np.array([1000, 2000, 3000]))
    windows = seconds.figures(2 * MAX_SECONDS + 1, None)
    assert len(windows) == 2401
    assert [(w["start_s"], w["count"]) for w in windows if w["count"]] == [(0, 1), (3, 1), (7200, 1)]
