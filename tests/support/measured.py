"""Measurements made of outcomes that a test chose: times in s, from the start of the schedule."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from loadgen.evaluation.measured_run import complete, header
from loadgen.load.load_config import LoadConfig, Startup
from loadgen.measurement.interval_edges import GENERATOR, SERVER, Energy, MachineUse, Statistics
from loadgen.measurement.measurement import ActiveLoad, Measured, Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import interval_from
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.target import Placement
from servemark.machine.cpu_time import CpuUse
from servemark.machine.environment import collect
from servemark.machine.scheduling import GrantedPriority
from servemark.results.schema.run import Resolved, Worker
from tests.support.load_config import config

S = 1_000_000_000
_here = functools.cache(collect)
LOAD: dict[str, Any] = {
    "cpu_utilization": 0.5,
    "granted": GrantedPriority(),
    "peak_in_flight": 0,
    "workers": [],
    **dict.fromkeys(("cpu_latency", "interrupted", "labelled", "warmed")),
}
"""Facts of a load, unless a test has others."""
QUIET = CpuUse(2, 2.0, {GENERATOR: 0.1, SERVER: 1.0}, 0.01, 0.0, None)


def outcome(scheduled: int, sent: int, done: int, error: str | None = None, message: str = "") -> Outcome:
    """A request with its times in ns."""
    return Outcome(Payload(b""), scheduled, sent, done, error, message, None)


def answered(scheduled_s: float, latency_s: float, error: str | None = None, *, late_s: float = 0.0) -> Outcome:
    """A request sent `late_s` after its time, which took `latency_s` from its time on."""
    scheduled, sent, done = (round(at * S) for at in (scheduled_s, scheduled_s + late_s, scheduled_s + latency_s))
    return outcome(scheduled, sent, done, error, f"said {error}" if error else "")


def evenly(rate: float, until_s: float, latency_s: float, *, first_s: float = 0.0) -> list[Outcome]:
    """Answers to a constant rate."""
    count = round((until_s - first_s) * rate)
    return [answered(first_s + number / rate, latency_s) for number in range(count)]


def measured(settings: LoadConfig, outcomes: Sequence[Outcome], **seen: Any) -> Measured:
    """A whole run of these outcomes, by a generator that used half of its core."""
    recorder = Recorder(interval_from(settings, 0))
    recorder.clock = seen.pop("clock", None)
    for outcome in outcomes:
        recorder.outcome(outcome)
    recorder.flush()
    statistics = SimpleNamespace(
        **{name: seen.pop(name, None) for name in ("before", "after", "late")},
        available=seen.pop("had_statistics", False),
    )
    energy = SimpleNamespace(reading=None, idle=None, command=None, reason="no meter")
    elsewhere = seen.pop("server_elsewhere", False)
    machine = SimpleNamespace(use=seen.pop("cpu_use", QUIET), reason="not watched", server_elsewhere=elsewhere)
    measured_s = seen.pop("measured_s", settings.duration_s)
    load = cast(ActiveLoad, SimpleNamespace(**LOAD | {"recorder": recorder} | seen))
    parts = cast(Statistics, statistics), cast(Energy, energy), cast(MachineUse, machine)
    return Measured(load, recorder, *parts, measured_s=measured_s)


def worker_figures(
    index: int,
    late_ms: tuple[float, float] | None = (0.1, 0.2),
    trouble: str | None = None,
    *,
    host: str = "host",
    clock_ms: float = 0.1,
) -> Worker:
    """A worker, by default one that was in time; `late_ms` is the interval of its schedule delay."""
    return {
        "index": index,
        "host": host,
        "pid": 7,
        "requests": 200,
        "schedule_delay_p99_ms": late_ms and sum(late_ms) / 2,
        "schedule_delay_p99_ci95_ms": late_ms and [*late_ms],
        "cpu_utilization": 0.4,
        "max_in_flight": 3,
        "clock_uncertainty_ms": clock_ms,
        "trouble": trouble,
    }


class Target:
    """A target that says nothing of itself."""

    protocol, shared_memory, local = "http", "none", True
    no_statistics = "it has no statistics"
    volume = connection_times = clock = None

    def __init__(self, config: LoadConfig) -> None:
        self.config: Resolved = {**config.resolved(), "url": "http://h:1"}


def load_result(
    flags: Sequence[str], outcomes: Sequence[Outcome], *, startup: Startup | None = None, **seen: Any
) -> Any:
    """The whole result of such a run, as result.json has it."""
    settings = replace(config("ranking_tiny", *flags), startup=startup)
    run = SimpleNamespace(
        config=settings,
        target=Target(settings),
        placement=Placement("onnxruntime", "cpu", None),
        measured=measured(settings, outcomes, **seen),
        golden=None,
        telemetry=None,
    )
    found: Any = complete(header(cast(Measurement, run)), cast(Measurement, run))
    # The machine as it was first seen: results are compared, and files of the checkout may change meanwhile.
    return {**found, "environment": dict(_here())}
