"""Live figures of a run: its counts, its objectives, and its constraints so far."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadgen.driver.traffic import Traffic
from loadgen.evaluation.live import Live, machine, run_labels, standing
from loadgen.measurement.measurement import ActiveLoad, Measurement
from loadgen.sut.channel import Outcome
from servemark.machine.scheduling import GrantedPriority
from servemark.telemetry.metrics.publisher import Publisher
from servemark.telemetry.metrics.snapshot import Sample, Snapshot
from servemark.telemetry.recording import Column
from tests.support.load_config import config
from tests.support.measured import S, answered, evenly, measured

HEADER: Any = {"engine": None, "precision": None, "device": "cpu", "protocol": "http", "batch_size": 1}


class Published:
    """A publisher that keeps what it is handed."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def publish(self, snapshot: Snapshot, _spans: object) -> None:
        self.snapshots.append(snapshot)


def run(flags: list[str], outcomes: list[Outcome], traffic: Traffic) -> Measurement:
    """A measurement in its middle."""
    settings = config("ranking_tiny", *flags)
    seen = measured(settings, outcomes)
    sending = SimpleNamespace(
        recorder=seen.recorder,
        cpu_utilization=0.25,
        granted=GrantedPriority(),
        workers=[],
        interrupted=None,
        traffic=lambda _now: traffic,
        spans=list,
    )
    parts = {"config": settings, "measured": seen, "sending": cast(ActiveLoad, sending), "telemetry": None}
    return cast(Measurement, SimpleNamespace(**parts))


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
    assert middle.sending is not None
    now = [round(each * S) for each in (0.5, 1.9)]
    before, early = (standing(middle.config, middle.measured, middle.sending, Traffic(90, 90, 0, 0), at) for at in now)
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
