"""Live figures of a run: its counts, objectives and constraints so far, and what the process that draws it gets."""

import fcntl
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.evaluation.live import LIVE_FD, Live, descriptor, feed, figures_now, machine, run_labels, standing
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.windows import Traffic
from loadgen.sut.channel import Outcome
from servemark.figures.registry import value_of
from servemark.results.schema.run import LiveFigures
from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import Sample, Snapshot
from servemark.telemetry.metrics.publisher import Publisher
from servemark.telemetry.recording import Column
from tests.support.load_config import config
from tests.support.measured import S, answered, evenly, measured

HEADER: Any = {"engine": None, "precision": None, "device": "cpu", "protocol": "http", "batch_size": 1}
MIDDLE = Traffic(810, 805, 7, 2)


class Published:
    """A publisher that keeps what it is handed."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def publish(self, snapshot: Snapshot, _spans: object) -> None:
        self.snapshots.append(snapshot)


def run(flags: list[str], outcomes: list[Outcome], traffic: Traffic) -> Measurement:
    """A measurement in its middle."""
    settings = config("ranking_tiny", *flags)
    seen = measured(settings, outcomes, cpu_utilization=0.25, traffic=lambda _now: traffic, spans=list)
    return cast(Measurement, SimpleNamespace(config=settings, measured=seen, telemetry=None))


def published(flags: list[str], outcomes: list[Outcome], traffic: Traffic, now_s: float) -> dict[Any, float]:
    """The samples by name and labels of their own."""
    kept = Published()
    Live(run(flags, outcomes, traffic), cast(Publisher, kept), HEADER, Path("results/r")).publish(round(now_s * S))
    [snapshot] = kept.snapshots
    return {(sample.name.removeprefix("servemark_"), *sample.labels): sample.value for sample in snapshot.samples}


OPEN = ["--request-rate", "100", "--warmup", "1", "--duration", "10"]


def test_a_run_in_its_middle_says_how_it_stands() -> None:
    outcomes = evenly(100, 9, 0.010) + [answered(4, 2.0, "timeout")] * 3
    found = published([*OPEN, "--slo", "p99:20,errors:0.01"], outcomes, Traffic(810, 805, 7, 2), 9)
    assert found["requests_total", "ok", ""] == 800
    assert found["requests_total", "failed", "timeout"] == 3
    assert found["requests_scheduled_total",] == 810
    assert (found["requests_sent_total",], found["requests_in_flight",], found["requests_backlog",]) == (805, 7, 2)
    assert found["requested_rate",] == 100
    assert (found["measuring",], found["stage",], found["client_cpu_ratio",]) == (1, 0, 0.25)
    assert found["objective_limit", "latency_p99", "seconds"] == pytest.approx(0.020)
    assert found["objective_limit", "errors", "ratio"] == 0.01
    assert found["objective_allowed_ratio", "latency_p99"] == pytest.approx(0.01)
    assert found["objective_breaches_total", "latency_p99"] == 3
    assert found["objective_budget_burned_ratio", "latency_p99"] == pytest.approx(3 / 8.03)
    assert found["objective_budget_burned_ratio", "errors"] == pytest.approx(3 / 8.03)
    assert found["constraint_ok", "error_rate"] == 1
    assert found["constraint_ok", "steady_state"] == 1


def test_an_objective_of_a_whole_run_has_its_limit_at_most() -> None:
    flags = [*OPEN, "--slo", "throughput:50,recovery:5", "--at", "5:true"]
    found = published(flags, evenly(100, 9, 0.010), Traffic(810, 805, 7, 2), 9)
    assert found["objective_limit", "throughput", "requests_per_second"] == 50
    assert len([key for key in found if key[0].startswith("objective_")]) == 1


def test_a_server_that_stopped_answering_is_seen_before_its_requests_fail() -> None:
    found = published(OPEN, evenly(100, 3, 0.010), Traffic(500, 500, 300, 0), 6)
    assert found["constraint_ok", "achieved_rate"] == 0


def test_the_stages_of_a_load_are_told_by_their_numbers() -> None:
    flags = ["--stages", "2:10,3:20,4:30", "--warmup", "1"]
    by_time = {now_s: published(flags, [], Traffic(0, 0, 0, 0), now_s) for now_s in (0.5, 1.5, 3.5, 9, 11)}
    assert [found.get(("stage",)) for found in by_time.values()] == [None, 0, 1, 2, 2]
    assert [found.get(("requested_rate",)) for found in by_time.values()] == [10, 10, 20, 30, None]
    assert [found["measuring",] for found in by_time.values()] == [0, 1, 1, 1, 0]


def test_a_closed_loop_has_no_schedule() -> None:
    found = published(["--concurrency", "2", "--warmup", "1"], [], Traffic(5, 5, 2, 0), 2)
    assert ("requested_rate",) not in found
    assert found["requests_scheduled_total",] == 5


def test_nothing_is_judged_before_the_interval_or_before_enough_windows() -> None:
    middle = run(OPEN, evenly(100, 3, 0.010), Traffic(200, 200, 0, 0))
    assert middle.measured is not None
    now = [round(each * S) for each in (0.5, 1.9)]
    before, early = (standing(middle.config, middle.measured, Traffic(90, 90, 0, 0), at) for at in now)
    assert before == {}
    assert early.keys() >= {"error_rate", "achieved_rate", "client_cpu"}
    assert not early.keys() & {"steady_state", "output_agreement"}


def test_the_labels_name_what_really_runs() -> None:
    settings = config("ranking_tiny", "--out", "results")
    header: Any = {**HEADER, "engine": "openvino"}
    labels = run_labels(settings, header, Path("results/mix/ranking"))
    assert labels == {
        "workload": "ranking_tiny",
        "engine": "openvino",
        "precision": "fp32",
        "device": "cpu",
        "scenario": "closed",
        "run": "mix/ranking",
    }
    assert run_labels(settings, HEADER, Path("/elsewhere/r"))["run"] == "r"


def test_the_machine_s_figures_go_by_the_names_of_the_catalog() -> None:
    latest = {
        Column("gpu_throttled", "ratio", (("gpu", "0"), ("reason", "hw_thermal"))): 1.0,
        Column("power_watts", "watts", (("boundary", "wall"), ("source", "power_command"))): 250.0,
        Column("memory_used_bytes", "bytes"): 1e9,
        Column("cpu_stolen_ratio", "ratio"): 0.1,  # of series.json alone
    }
    assert list(machine(latest)) == [
        Sample("servemark_gpu_throttled", 1.0, ("0", "hw_thermal")),
        Sample("servemark_power_watts", 250.0, ("wall", "power_command")),
        Sample("servemark_memory_used_bytes", 1e9),
    ]


class Meter:
    """A meter of 100 W since the beginning of all times."""

    joules = 0.0

    def latest(self) -> dict[Column, float]:
        labels = (("boundary", "wall"), ("source", "power_command"))
        return {Column("energy_joules_total", "joules", labels, counter=True): self.joules}


@pytest.mark.parametrize(("at_s", "energy_j"), [((0.2, 0.9, 3.0, 9.0), [200, 800]), ((0.2, 1.0), [0])])
def test_energy_counts_from_the_start_of_the_measured_interval(at_s: tuple[float, ...], energy_j: list[float]) -> None:
    measurement, kept, meter = run(OPEN, evenly(100, 9, 0.010), MIDDLE), Published(), Meter()
    cast(Any, measurement).telemetry = meter
    live = Live(measurement, cast(Publisher, kept), HEADER, Path("results/r"))
    for now_s in at_s:
        meter.joules = 100 * now_s
        live.publish(round(now_s * S))
    found = [sample.value for each in kept.snapshots for sample in each.samples if "energy_joules" in sample.name]
    assert found == pytest.approx(energy_j)


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
    holds = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    send = feed(run(OPEN, evenly(100, 9, 0.010), MIDDLE), writing)
    for _ in range(20):
        send(9 * S)
    lines = os.read(reading, 1 << 16).split(b"\n")
    assert 20 * len(lines[0]) > holds
    os.close(reading)
    send(9 * S)  # nobody reads any more
    os.close(writing)
    assert json.loads(lines[0])["in_flight"] == 7


@pytest.mark.parametrize(("text", "known"), [("", False), ("x", False), ("987654", False), ("0", True)])
def test_a_descriptor_that_is_none_is_passed_over(text: str, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIVE_FD, text)
    assert (descriptor() is not None) == known
