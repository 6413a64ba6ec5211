"""Overload: nothing grows without bound, the schedule stays, and the result says what limited, from what it saw."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.driver.event_loop import Backlog
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from servemark.results.bottleneck import bottleneck
from servemark.results.verdict import failed_constraints
from servemark.workload import get
from tests.support.locust_run import accounted, run, server_of, the_result
from tests.support.measured import outcome

MS = 1_000_000
S = 1000 * MS


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_the_backlog_knows_who_waited(steps: list[tuple[int, int]]) -> None:
    """Arrivals one after the other, each step some that come and some that may go, against a list kept by hand."""
    backlog, now, free = Backlog(), 0, 2
    waiting: list[int] = []
    waited: set[int] = set()
    for come, go in steps:
        for _ in range(go):
            if waiting:
                assert (backlog.first, backlog.popleft()) == (waiting[0], waiting.pop(0))
            else:
                free += 1
        for _ in range(come):
            now += 10
            # The driver lets nobody pass those that wait.
            if free and not waiting:
                free -= 1
            else:
                backlog.append(now)
                waiting.append(now)
                waited.add(now)
    assert len(backlog) == len(waiting)
    everybody = np.arange(0, now + 20, 10)
    assert set(everybody[backlog.waited(everybody)].tolist()) == waited


def test_the_backlog_forgets_what_is_over() -> None:
    backlog = Backlog()
    for first in range(0, 10_000, 10):
        backlog.append(first)
        backlog.append(first + 1)
        backlog.popleft()
        backlog.popleft()
        backlog.forget(first - 100)
    assert len(backlog._stretches) < 15
    assert backlog.waited(np.array([9_990, 9_991, 9_995])).tolist() == [True, True, False]


def test_the_delay_of_those_that_waited_is_not_the_generators() -> None:
    recorder = Recorder(Interval(0, S, 1), waited=lambda scheduled: scheduled >= 500 * MS)
    for number in range(1000):
        scheduled = number * MS
        late = 300 * MS if number >= 500 else MS // 10
        recorder.outcome(outcome(scheduled, scheduled + late, scheduled + late + 5 * MS))
    recorder.flush()
    own = recorder.schedule_delay.without(recorder.waited_delay)
    assert (own.count, recorder.waited_delay.count) == (500, 500)
    assert own.percentile(99) == pytest.approx(0.1, rel=1e-3)
    assert own.mean_ms() == pytest.approx(0.1, rel=1e-6)
    assert recorder.schedule_delay.percentile(99) == pytest.approx(300, rel=1e-3)


def test_an_overloaded_server_is_named_with_its_queue(tmp_path: Path) -> None:
    """300/s for 1 s on a server of 100/s: at most 20 in flight, the others wait in the generator."""
    with server_of(get("ranking_tiny"), capacity_per_s=100.0) as server:
        flags = ["--model", "ranking_tiny", "--url", server.url, "--out", str(tmp_path), "--max-in-flight", "20"]
        flags += ["--request-rate", "300", "--request-distribution", "constant", "--duration", "1", "--warmup", "0"]
        done = run("ranking", *flags)
        log = server.log()
    result = the_result(tmp_path)
    limited, checked = result["bottleneck"], result["verdict"]
    figures = {tag: found["value"] for tag, found in result["figures"].items()}
    assert done.returncode == 2
    assert accounted(result) == len(log["requests"]) == 1 + 300  # one goes out before the load
    assert figures["generator.max_in_flight"] == 20
    assert figures["generator.waited_share"] > 0.8
    assert log["connections"] < 40
    assert "achieved_rate" in failed_constraints(checked)
    # The last was due after 1 s and answered after 3: the schedule was not moved.
    assert figures["latency.max"] > 1900
    # 20 take 200 ms of the server, and so long must a generator be late that is to blame instead.
    inside_ms = sum(figures[f"server.{step}"] for step in ("queue", "compute_input", "compute_infer"))
    assert limited["by"] == ("server" if figures["generator.delay_p99"] < inside_ms else "generator")
    assert limited == bottleneck(result["figures"], result["details"], checked, open_loop=True)
    assert f"limited by: {limited['by']} ({limited['evidence']}" in done.stdout
