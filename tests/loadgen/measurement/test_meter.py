"""The meter against servers whose latency is known: counts, percentiles, and a stall that only an open loop sees."""

import zlib
from typing import Any

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.load.arrivals import schedule
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome
from servemark.documents.load import Distribution
from servemark.stats.histogram import Histogram
from tests.golden.behaviour import Behaviour
from tests.golden.load import Load, constant_ns
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


def recorded(outcomes: list[Outcome], start_ns: int, duration_s: float = DURATION_S) -> Recorder:
    recorder = Recorder(Interval(start_ns, start_ns + round(duration_s * S), 10))
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
    short: dict[str, Any] = {"stall_s": 0.4, "stall_every_s": 4.0, "stall_phase_s": 1.805}
    arrivals = constant_ns(RATE, 400)
    with GoldenServer(delay_s=DELAY_MS / 1e3, stall_anchor="first_request", **short) as server:
        load = Load(server.port, connect=128, distinct=len(arrivals)).open(arrivals)
        log = {entry["crc32"]: entry for entry in server.requests()}
    assert load.kinds == {"ok": len(arrivals)}
    assert len(log) == len(arrivals)
    for ours in load.good:
        theirs = log[zlib.crc32(ours.payload.request.partition(b"\r\n\r\n")[2])]
        assert ours.scheduled <= ours.sent <= theirs["arrival_ns"] < theirs["due_ns"] <= ours.done
    stall = min(entry["arrival_ns"] for entry in log.values()) + round(short["stall_phase_s"] * S)
    end = stall + round(short["stall_s"] * S)
    due_in_it = [o for o in load.good if stall <= o.scheduled < end]
    assert len(due_in_it) == 40
    least = [end + round(DELAY_MS * MS) - o.scheduled for o in due_in_it]
    assert all(o.done - o.scheduled >= wait for o, wait in zip(due_in_it, least, strict=True))
    recorder = recorded(load.outcomes, load.started_ns, duration_s=4)
    latencies = sorted(o.done - o.scheduled for o in load.outcomes)
    for percentile, place in [(50, 200), (90, 360), (95, 380), (99, 396)]:
        assert recorder.latency.percentile(percentile) == pytest.approx(latencies[place - 1] / MS, rel=2e-3)
        if place > 360:
            assert latencies[place - 1] >= sorted(least)[place - 361]
    assert recorder.latency.percentile(50) < DELAY_MS + BUSY_MS
    assert [window.scheduled for window in recorder.windows] == [40] * 10
    came, _ = np.histogram([o.done for o in load.outcomes], [load.started_ns + i * S * 2 // 5 for i in range(11)])
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


@pytest.mark.parametrize(("delay_ms", "count"), [(1, 300), (100, 12)])
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
        load = Load(server.port, timeout_s=2).open(constant_ns(200, 200))
        kinds = [entry["kind"] for entry in server.requests()]
    recorder = recorded(load.outcomes, load.started_ns, duration_s=1)
    expected = {"http_500": "error", "timeout": "never", "wrong_shape": "wrong_shape"}
    assert recorder.errors == {kind: kinds.count(theirs) for kind, theirs in expected.items()}
    assert recorder.scheduled == 200 == recorder.latency.count + recorder.errors.total()
    # the time-outs would show
    assert 50 * MS <= recorder.latency.min_ns <= recorder.latency.max_ns < 2 * S
    assert sum(window.errors for window in recorder.windows) == recorder.errors.total()
    assert recorder.messages["timeout"] == ["no response within 2 s"]
