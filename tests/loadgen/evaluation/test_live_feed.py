"""Figures that a run hands to the process that draws it."""

import json
import os
from typing import Any, cast

import pytest

from loadgen.driver.traffic import Traffic
from loadgen.evaluation.live_feed import LIVE_FD, descriptor, feed, figures_now
from loadgen.measurement.measurement import Measurement
from servemark.figures.registry import value_of
from servemark.results.schema.live_figures import LiveFigures
from servemark.stats.histogram import Histogram
from servemark.telemetry.recording import Column
from tests.loadgen.evaluation.test_live import OPEN, run
from tests.support.measured import S, answered, evenly

MIDDLE = Traffic(810, 805, 7, 2)


class Telemetry:
    """Meters that say this."""

    def latest(self) -> dict[Column, float]:
        return {
            Column("power_watts", "watts", (("boundary", "wall"), ("source", "power_command"))): 250.0,
            Column("cpu_utilization_ratio", "ratio"): 0.5,
        }

    def latest_of_server(self) -> dict[Column, float]:
        return {
            Column("nv_inference_pending_request_count", "", (("version", "1"),)): 3.0,
            Column("nv_inference_pending_request_count", "", (("version", "2"),)): 1.0,
        }


def figures(measurement: Measurement, now_s: float, before: Histogram | None = None) -> LiveFigures:
    found, _ = figures_now(measurement, round(now_s * S), before or Histogram())
    assert found is not None
    return found


def test_a_run_in_its_middle() -> None:
    outcomes = [*evenly(100, 9, 0.010), *[answered(4, 2.0, "timeout")] * 3]
    measurement = run([*OPEN, "--slo", "p99:20,p50:1"], outcomes, MIDDLE)
    cast(Any, measurement).telemetry = Telemetry()
    found = figures(measurement, 9)
    assert (found["elapsed_s"], found["whole_s"], found["answered"]) == (8, 10, 900)
    assert (found["asked_rate"], found["in_flight"], found["backlog"], found["queue"]) == (100, 7, 2, 4)
    assert value_of(found, "latency.p50") == pytest.approx(10, rel=1e-3)
    assert value_of(found, "latency.p99") is None  # 800 requests do not support it
    assert value_of(found, "schedule_delay.p99") is None
    assert (found["errors"], found["power_w"]) == ({"timeout": 3}, {"wall": 250})
    assert found["constraints"]["error_rate"]
    assert found["objectives"] == {"p99:20": "undecided", "p50:1": "missed"}


def test_a_second_is_what_came_since_the_figures_before() -> None:
    slow = run(OPEN, [*evenly(100, 9, 0.010), *[answered(8.5, 0.3)] * 5], MIDDLE)
    fast = run(OPEN, evenly(100, 9, 0.010), MIDDLE)
    _, before = figures_now(fast, 9 * S, Histogram())
    found = figures(slow, 9.5, before)
    assert found["second_p50_ms"] == pytest.approx(300, rel=1e-3)
    assert figures(fast, 9.5, before)["second_p99_ms"] is None  # nothing came


def test_a_closed_loop_in_its_warm_up() -> None:
    found = figures(run(["--concurrency", "2", "--warmup", "1"], [], Traffic(0, 0, 2, 0)), 0.25)
    delay = value_of(found, "schedule_delay.p99")
    assert (found["elapsed_s"], found["asked_rate"], delay) == (-0.75, None, None)
    assert (found["constraints"], found["objectives"], found["queue"], found["power_w"]) == ({}, {}, None, {})


def test_lines_are_written_and_a_full_pipe_holds_nobody_up() -> None:
    reading, writing = os.pipe()
    send = feed(run(OPEN, evenly(100, 9, 0.010), MIDDLE), writing)
    for _ in range(500):  # more than a pipe holds
        send(9 * S)
    lines = os.read(reading, 1 << 16).split(b"\n")
    os.close(reading)
    send(9 * S)  # nobody reads any more
    os.close(writing)
    assert json.loads(lines[0])["in_flight"] == 7


@pytest.mark.parametrize(("text", "known"), [("", False), ("x", False), ("987654", False), ("0", True)])
def test_a_descriptor_that_is_none_is_passed_over(text: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_FD, text)
    assert (descriptor() is not None) == known
