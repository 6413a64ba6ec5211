"""A trace's windows of one second: against numpy over the outcomes themselves, alone and of several processes."""

from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from loadgen.distributed.messages import merged, state_of
from loadgen.measurement.recorder import MAX_SECONDS, Recorder, S, Seconds
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome
from tests.support.measured import answered, load_result
from tests.support.result_checks import check_schema

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


def test_several_processes_have_the_same_seconds() -> None:
    given = outcomes([30, 200, 1200])

    def recorded(part: list[Outcome]) -> Recorder:
        recorder = Recorder(Interval(S, 4 * S, 3, by_second=True))
        for each in part:
            recorder.outcome(each)
        recorder.flush()
        return recorder

    states = [msgpack.loads(msgpack.dumps(state_of(recorded(given[n::3]))), strict_map_key=False) for n in range(3)]
    whole, together = recorded(given).seconds, merged(Interval(S, 4 * S, 3, by_second=True), states).seconds
    assert whole is not None
    assert together is not None
    assert together.figures(3, LIMIT_MS) == whole.figures(3, LIMIT_MS)
    assert state_of(recorded(given), final=False)["seconds"] is None
