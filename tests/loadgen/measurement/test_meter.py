"""The meter against servers whose latency is known: counts, percentiles, and a stall that only an open loop sees."""

import time
import zlib
from typing import Any

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.driver.failures import MAX_MESSAGES
from loadgen.load.arrivals import schedule
from loadgen.measurement.recorder import MAX_SAMPLED_RESPONSES, Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload
from servemark.documents.load import Distribution
from servemark.stats.histogram import Histogram
from tests.golden.behaviour import Behaviour
from tests.golden.load import Load, constant_ns, payloads
from tests.golden.server import GoldenServer
from tests.support.measured import outcome

S = 1_000_000_000
STALL: dict[str, Any] = {"stall_s": 1.0, "stall_every_s": 10.0, "stall_phase_s": 4.505}  # between two arrivals
RATE, DURATION_S, DELAY_MS = 100, 10, 2.0
BUSY_MS = 400
"""Delay that other work on the machine adds to at most half of the requests; the benchmark `precision` is exact."""


def histogram(latencies_ns: list[int]) -> Histogram:
    found = Histogram()
    found.record(np.array(latencies_ns, np.int64))
    return found


def recorded(outcomes: list[Outcome], start_ns: int, duration_s: float = DURATION_S, windows: int = 10) -> Recorder:
    recorder = Recorder(Interval(start_ns, start_ns + round(duration_s * S), windows))
    for each in outcomes:
        recorder.outcome(each)
    recorder.flush()
    return recorder


def test_a_stall_of_1_s_in_10_s_has_the_percentiles_that_arithmetic_gives() -> None:
    """At a constant 100/s every tenth request falls into the stall and waits 5, 15, ... 995 ms.

    So p50 shows nothing of it, p90 lies at its edge, p95 is the 50th of those 100 requests, p99 the 90th.
    """
    server = Behaviour(**STALL)
    sent = constant_ns(RATE, RATE * DURATION_S)
    done = [server.after_stall_ns(at, 0) + round(DELAY_MS * MS) for at in sent]
    recorder = recorded([outcome(at, at, then) for at, then in zip(sent, done, strict=True)], 0)
    found = [recorder.latency.percentile(p) for p in (50, 90, 95, 99, 100)]
    assert found == pytest.approx([DELAY_MS, DELAY_MS, DELAY_MS + 495, DELAY_MS + 895, DELAY_MS + 995], rel=2e-3)
    # The windows show where it was; nothing came back while it lasted.
    assert [round(window.latency.max_ns / MS, -2) for window in recorder.windows] == [0] * 4 + [1000, 500] + [0] * 4
    assert [window.scheduled for window in recorder.windows] == [100] * 10
    assert [window.completed for window in recorder.windows] == [100] * 4 + [51, 149] + [100] * 4


def test_a_stall_of_a_real_server_is_seen_by_every_request_that_was_due_in_it() -> None:
    """Whatever else this machine does: who is due in the stall is answered after its end, and none of it is lost."""
    arrivals = constant_ns(RATE, RATE * DURATION_S)
    with GoldenServer(delay_s=DELAY_MS / 1e3, stall_anchor="first_request", **STALL) as server:
        load = Load(server.port, connect=128, requests=payloads(distinct=len(arrivals))).open(arrivals)
        log = {entry["crc32"]: entry for entry in server.requests()}
    assert load.kinds == {"ok": len(arrivals)}
    assert len(log) == len(arrivals)
    for ours in load.good:
        theirs = log[zlib.crc32(ours.payload.request.partition(b"\r\n\r\n")[2])]
        assert ours.scheduled <= ours.sent <= theirs["arrival_ns"] < theirs["due_ns"] <= ours.done
    stall = min(entry["arrival_ns"] for entry in log.values()) + round(STALL["stall_phase_s"] * S)
    due_in_it = [o for o in load.good if stall <= o.scheduled < stall + S]
    assert len(due_in_it) == RATE
    least = [stall + S + round(DELAY_MS * MS) - o.scheduled for o in due_in_it]
    assert all(o.done - o.scheduled >= wait for o, wait in zip(due_in_it, least, strict=True))
    recorder = recorded(load.outcomes, load.started_ns)
    latencies = sorted(o.done - o.scheduled for o in load.outcomes)
    for percentile, place in [(50, 500), (90, 900), (95, 950), (99, 990)]:
        assert recorder.latency.percentile(percentile) == pytest.approx(latencies[place - 1] / MS, rel=2e-3)
        if place > 900:
            assert latencies[place - 1] >= sorted(least)[place - 901]
    assert recorder.latency.percentile(50) < DELAY_MS + BUSY_MS
    assert [window.scheduled for window in recorder.windows] == [RATE] * DURATION_S
    came, _ = np.histogram([o.done for o in load.outcomes], [load.started_ns + i * S for i in range(DURATION_S + 1)])
    assert [window.completed for window in recorder.windows] == came.tolist()


def test_a_closed_loop_hides_the_stall_and_so_does_a_clock_that_starts_at_sending() -> None:
    stall: dict[str, Any] = {"stall_s": 0.5, "stall_every_s": 2.0, "stall_phase_s": 0.75}
    with GoldenServer(delay_s=DELAY_MS / 1e3, stall_anchor="first_request", **stall) as server:
        closed = Load(server.port, connect=1).closed(1, 2.0)
        held = [e for e in server.requests() if e["due_ns"] - e["arrival_ns"] > 3 * MS]
        server.reset()
        # one connection: the requests that are due during the stall wait in the generator
        waiting = Load(server.port, connect=1, max_in_flight=1).open(constant_ns(RATE, 200))
        served = server.requests()
    assert closed.kinds.keys() == waiting.kinds.keys() == {"ok"}
    assert len(held) == 1
    hidden = histogram([o.done - o.scheduled for o in closed.good])
    assert hidden.percentile(50) < BUSY_MS
    assert hidden.max_ns >= held[0]["due_ns"] - held[0]["arrival_ns"]
    from_send = histogram([o.done - o.sent for o in waiting.good])
    from_schedule = histogram([o.done - o.scheduled for o in waiting.good])
    assert from_send.percentile(75) < BUSY_MS
    # A quarter of the schedule fell into the stall, of which the server saw one request.
    assert sum(e["due_ns"] - e["arrival_ns"] > 3 * MS for e in served) == 1
    assert from_schedule.percentile(90) > 250
    assert from_schedule.percentile(99) > 400


@pytest.mark.parametrize(("delay_ms", "count"), [(1, 300), (10, 100), (100, 12)])
@pytest.mark.parametrize("loop", ["open", "closed"])
def test_every_request_encloses_what_the_server_did(delay_ms: int, count: int, loop: str) -> None:
    """On one clock a request is sent, received, answered and done, in this order, and not much more happens."""
    with GoldenServer(delay_s=delay_ms / 1e3) as server:
        load = Load(server.port, connect=1, max_in_flight=1)  # so that the n-th outcome is the log's n-th request
        if loop == "open":
            load.open(constant_ns(min(150, 500 / delay_ms), count))
        else:
            load.closed(1, count * delay_ms / 1e3)
        log = server.requests()
    assert load.kinds == {"ok": len(log)}
    for ours, theirs in zip(load.good, log, strict=True):
        assert ours.scheduled <= ours.sent <= theirs["arrival_ns"]
        assert theirs["due_ns"] - theirs["arrival_ns"] >= delay_ms * MS
        assert theirs["due_ns"] <= ours.done
    latency = histogram([o.done - o.scheduled for o in load.good]).percentile(50)
    assert delay_ms <= latency < delay_ms + BUSY_MS


def test_poisson_arrivals_are_sent_when_they_are_due() -> None:
    arrivals = [int(t) for t in schedule(Distribution.POISSON, 300, 2, seed=1)]
    with GoldenServer(delay_s=0.005) as server:
        load = Load(server.port, connect=64).open(arrivals)
        log = server.requests()
    assert len(log) == len(load.good) == len(arrivals)
    late_ms = np.array([o.sent - o.scheduled for o in load.outcomes]) / MS
    assert late_ms.min() >= 0
    assert np.median(late_ms) < BUSY_MS
    received_ms = np.sort([e["arrival_ns"] - load.started_ns for e in log]) / MS
    assert np.median(np.abs(received_ms - np.array(arrivals) / MS)) < BUSY_MS


def test_errors_are_counted_by_kind_and_stay_out_of_the_latencies() -> None:
    with GoldenServer(delay_s=0.05, error_every=5, never_every=8, wrong_shape_every=7) as server:
        load = Load(server.port, timeout_s=4).open(constant_ns(200, 200))
        kinds = [entry["kind"] for entry in server.requests()]
    recorder = recorded(load.outcomes, load.started_ns, duration_s=1)
    expected = {"http_500": "error", "timeout": "never", "wrong_shape": "wrong_shape"}
    assert recorder.errors == {kind: kinds.count(theirs) for kind, theirs in expected.items()}
    assert recorder.scheduled == 200 == recorder.latency.count + recorder.errors.total()
    # the time-outs would show
    assert 50 * MS <= recorder.latency.min_ns <= recorder.latency.max_ns < 4 * S
    assert sum(window.errors for window in recorder.windows) == recorder.errors.total()
    assert recorder.messages["timeout"] == ["no response within 4 s"]


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
    start = time.monotonic_ns()
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


def test_an_interval_that_has_to_hold_nothing_ends_on_time() -> None:
    recorder = Recorder(Interval(0, S, 1))
    assert (recorder.is_over(S - 1), recorder.is_over(S), recorder.interval.end) == (False, True, S)


def test_golden_answers_are_sampled_over_the_whole_run() -> None:
    with GoldenServer() as server:
        response = Load(server.port).open([0]).outcomes[0].response
    recorder = Recorder(Interval(0, S, 1))
    for number in range(20 * MAX_SAMPLED_RESPONSES):
        recorder.outcome(Outcome(Payload(b"", (number,)), 1, 1, 1, None, "", response))
    kept = sorted(rows[0] for rows, _ in recorder.sampled)
    assert len(set(kept)) == MAX_SAMPLED_RESPONSES
    # the mean of an even sample, within four standard errors
    span = 20 * MAX_SAMPLED_RESPONSES
    assert np.mean(kept) == pytest.approx(span / 2, abs=4 * span / np.sqrt(12 * MAX_SAMPLED_RESPONSES))
