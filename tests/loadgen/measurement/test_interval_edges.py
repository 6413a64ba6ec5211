"""Readings at the edges of the measured interval: the energy of the target, idle and under load."""

import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gevent import GreenletExit

from loadgen.evaluation.evidence import _energy, evidence_of_recorder
from loadgen.load.load_config import LoadConfig
from loadgen.measurement import interval_edges
from loadgen.measurement.measurement import Measured
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.target import Target
from servemark.figures.registry import figures_of, number
from servemark.figures.value import Figures
from servemark.telemetry.energy import Meter
from servemark.telemetry.energy.meter import Sample
from tests.support.load_config import config

S = 1_000_000_000
STILL = "rapl: it did not move within"


class LocalTarget:
    """A target on this machine that has no statistics."""

    local = True

    def statistics(self) -> None:
        return None


def figures_of_energy(settings: LoadConfig, measured: Measured) -> Figures:
    evidence = replace(evidence_of_recorder(settings, measured.recorder, 1.0), energy=_energy(settings, measured))
    return {tag: found for tag, found in figures_of(evidence).items() if tag.startswith("energy.")}


def energy(joules: Sequence[float], completed: int, monkeypatch: pytest.MonkeyPatch) -> Figures:
    """The figures of a counter that shows these values at the edges: idle's two, then the interval's."""
    values = iter(joules)
    meter = Meter("rapl", "cpu_package", lambda: (next(values),), ranges_j=[1000.0], period_s=1e3)
    monkeypatch.setattr(interval_edges, "open_meter", lambda _boundary, **_: (meter, None))
    monkeypatch.setattr(interval_edges, "IDLE_S", 0.03)
    target = cast(Target, LocalTarget())
    found = interval_edges.Energy(target, "cpu")
    found.begin()
    time.sleep(0.05)
    found.finish()
    recorder = Recorder(Interval(0, S, 1))
    recorder.completed = completed
    measured = Measured(recorder, interval_edges.Statistics(target), found, cast(Any, None))
    return figures_of_energy(config("ranking_tiny", "--batch-size", "4"), measured)


def test_joules_are_those_between_the_edges_over_what_was_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = energy([10, 10.5, 900, 100], 50, monkeypatch)
    assert number(figures, "energy.total") == 200  # it wrapped around at 1000
    assert number(figures, "energy.per_inference") == 200 / (50 * 4)
    assert number(figures, "energy.per_request") == 200 / 50
    assert [tag for tag, found in figures.items() if "reason" in found] == ["energy.per_inference"]
    assert "an interval needs 5 parts of the run: measure for " in figures["energy.per_inference"]["reason"]


def test_a_command_ends_with_a_stop_while_the_idle_machine_is_metered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Stop in Locust's web UI is a GreenletExit."""
    closed: list[bool] = []
    command = SimpleNamespace(wait_for_first=lambda: None, meter=None, close=lambda: closed.append(True))

    def stop(_: object) -> None:
        raise GreenletExit

    monkeypatch.setattr(interval_edges, "PowerCommand", lambda *_: command)
    monkeypatch.setattr(interval_edges, "_idle", stop)
    with pytest.raises(GreenletExit):
        interval_edges.Energy(cast(Any, None), None, (), cast(Any, ("meter", "board")))
    assert closed == [True]


@pytest.mark.parametrize(
    ("joules", "completed", "unknown"),
    [
        ([10, 10, 20, 30], 1, {"energy.idle_power": STILL}),
        (
            [10, 20, 30, 30],
            1,
            dict.fromkeys(("energy.total", "energy.power", "energy.per_inference", "energy.per_request"), STILL),
        ),
        (
            [10, 20, 30, 40],
            0,
            dict.fromkeys(("energy.per_inference", "energy.per_request"), "no inference was completed"),
        ),
    ],
)
def test_each_figure_that_is_not_known_has_its_own_reason(
    joules: list[float], completed: int, unknown: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = energy(joules, completed, monkeypatch)
    assert {tag for tag, found in figures.items() if found["value"] is None} == unknown.keys()
    for tag, why in unknown.items():
        assert figures[tag]["reason"].startswith(why)


class Timed:
    """An interval of one second that may go on."""

    interval = Interval(S, 2 * S, 1)
    over = False

    def is_over(self, now: int) -> bool:
        return self.over and now >= self.interval.end


class Noted:
    """A reading that notes when it was taken."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def begin(self) -> None:
        self.taken.append("begin")

    def finish(self) -> None:
        self.taken.append("finish")


def test_each_reading_is_taken_once_at_each_boundary() -> None:
    timed, noted = Timed(), Noted()
    boundaries = interval_edges.Boundaries(noted)
    boundaries.tick(S - 1, timed)
    assert noted.taken == []
    boundaries.tick(S, timed)
    boundaries.tick(2 * S, timed)  # it goes on
    assert noted.taken == ["begin"]
    timed.over = True
    boundaries.tick(2 * S + 1, timed)
    boundaries.tick(2 * S + 2, timed)
    boundaries.finish()
    assert noted.taken == ["begin", "finish"]


def test_a_run_that_is_cut_short_has_its_readings_too() -> None:
    noted = Noted()
    interval_edges.Boundaries(noted).finish()
    assert noted.taken == ["begin", "finish"]


def test_cpu_time_is_this_thread_s_share_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([(1.0, 10.0), (1.5, 11.0), (2.0, 14.0)])
    monkeypatch.setattr(interval_edges, "_thread_and_clock_s", lambda: next(times))
    cpu = interval_edges.CpuTime()
    assert cpu.share is None
    cpu.begin()
    assert cpu.share == 0.5  # so far
    cpu.finish()
    assert cpu.share == 0.25


class Busy(LocalTarget):
    """A target that gives its counters before the load, and again when it is no longer asked for anything else."""

    def __init__(self, silent: int) -> None:
        self.asked, self._silent = 0, silent

    def statistics(self) -> Any:
        self.asked += 1
        return {"asked": self.asked} if self.asked <= 2 or self.asked > 2 + self._silent else None


@pytest.mark.parametrize(("silent", "after", "late"), [(0, 3, None), (1, None, 4), (9, None, None)])
def test_a_busy_target_is_asked_again_when_the_run_is_over(silent: int, after: int | None, late: int | None) -> None:
    statistics = interval_edges.Statistics(cast(Target, Busy(silent)))
    statistics.begin()
    statistics._wait()
    statistics.finish()
    statistics.wait()
    found = [reading and reading["asked"] for reading in (statistics.before, statistics.after, statistics.late)]
    assert found == [2, after, late]


def test_the_interval_is_that_of_the_runs_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten windows of 2 s that take 200 W, and each a little more or less for its answers."""
    meter = Meter("nvml_total_energy", "gpu_board", lambda: (0.0,), ranges_j=[1e9])
    monkeypatch.setattr(interval_edges, "open_meter", lambda _boundary, **_: (meter, None))
    monkeypatch.setattr(interval_edges, "_idle", lambda _meter: None)
    target = cast(Target, LocalTarget())
    found = interval_edges.Energy(target, "cuda")
    meter.samples = [Sample(each * S, (200.0 * each,)) for each in range(21)]
    found.reading = meter.evaluate(meter.samples)
    recorder = Recorder(Interval(0, 20 * S, 10))
    for index, window in enumerate(recorder.windows):
        window.completed = 95 if index % 3 else 110
    recorder.completed = sum(window.completed for window in recorder.windows)
    measured = Measured(recorder, interval_edges.Statistics(target), found, cast(Any, None))
    figures = figures_of_energy(config("ranking_tiny"), measured)
    value, (low, high) = 4000 / recorder.completed, cast(list[float], figures["energy.per_inference"]["ci95"])
    assert figures["energy.per_inference"]["value"] == pytest.approx(value)
    assert low < value < high
    assert high / low == pytest.approx(1 + 2 * 2.26 * 0.077 / 10**0.5, rel=0.03)
