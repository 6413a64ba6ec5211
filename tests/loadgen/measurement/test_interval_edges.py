"""Readings at the edges of the measured interval: energy, idle and under load, counters, CPU time, and whose cores."""

import contextlib
import errno
import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gevent import GreenletExit

from loadgen.evaluation.evidence import _energy, evidence_of_recorder
from loadgen.load.load_config import LoadConfig
from loadgen.measurement import interval_edges
from loadgen.measurement.interval_edges import GENERATOR, SERVER, MachineUse
from loadgen.measurement.measurement import Measured
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.target import Target
from servemark import interrupts
from servemark.figures.registry import figures_of, number
from servemark.figures.value import Figures
from servemark.telemetry.energy.meter import Meter, Sample
from tests.golden.server import GoldenServer
from tests.support.load_config import config
from tests.support.proxy import proxy_to

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
    measured = Measured(cast(Any, None), recorder, interval_edges.Statistics(target), found, cast(Any, None))
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


class Noted:
    """A reading that notes when it was taken."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def begin(self) -> None:
        self.taken.append("begin")

    def finish(self) -> None:
        self.taken.append("finish")


def test_each_reading_is_taken_once_at_each_boundary_also_of_a_run_that_is_cut_short() -> None:
    noted, cut_short = Noted(), Noted()
    boundaries = interval_edges.Boundaries(noted)
    for now, over, taken in ((S - 1, False, 0), (S, False, 1), (2 * S, False, 1), (2 * S, True, 2), (3 * S, True, 2)):
        boundaries.tick(now, S, over=over)
        assert noted.taken == ["begin", "finish"][:taken]
    boundaries.finish()
    interval_edges.Boundaries(cut_short).finish()
    assert noted.taken == cut_short.taken == ["begin", "finish"]


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
    measured = Measured(cast(Any, None), recorder, interval_edges.Statistics(target), found, cast(Any, None))
    figures = figures_of_energy(config("ranking_tiny"), measured)
    value, (low, high) = 4000 / recorder.completed, cast(list[float], figures["energy.per_inference"]["ci95"])
    assert figures["energy.per_inference"]["value"] == pytest.approx(value)
    assert low < value < high
    assert high / low == pytest.approx(1 + 2 * 2.26 * 0.077 / 10**0.5, rel=0.03)


class Served:
    """A target whose server's processes a test chooses."""

    def __init__(self, *pids: int, unknown: str | None = None) -> None:
        self.pids, self.unknown = pids, unknown

    def processes(self) -> list[int]:
        if self.unknown:
            raise LookupError(self.unknown)
        return [*self.pids]


def measured(target: Served, workers: Callable[[], Iterable[int]] = tuple) -> MachineUse:
    use = MachineUse(cast(Target, target), workers)
    use.begin()
    use.wait()
    sum(number**2 for number in range(500_000))
    use.finish()
    use.wait()
    return use


def test_this_process_is_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "owner", lambda: None)
    use = measured(Served()).use
    assert use is not None
    assert use.groups[GENERATOR] > 0 == use.groups[SERVER]


def test_the_command_s_whole_tree_is_the_generator_but_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        monkeypatch.setattr(interrupts, "owner", os.getppid)
        use: Any = measured(Served(busy.pid)).use
    finally:
        busy.kill()
        busy.wait()
    assert use.groups[GENERATOR] > 0
    assert use.groups[SERVER] > 0


def test_the_server_behind_a_proxy_is_the_server_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy connects to it when the first request comes; what it used before the interval is not counted."""
    monkeypatch.setattr(interrupts, "owner", lambda: None)
    with GoldenServer() as server, proxy_to(server.port) as proxy:
        use = MachineUse(cast(Target, Served(proxy.pid)), tuple)
        use.begin()
        use.wait()
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        with contextlib.closing(connection):
            for _ in range(20):
                connection.request("GET", "/v2/health/ready")
                connection.getresponse().read()
            use.finish()
            use.wait()
    assert use.use is not None, use.reason
    assert {f"(pid {pid})" for pid in (proxy.pid, server.pid)} == {*re.findall(r"\(pid \d+\)", use.use.members[SERVER])}


def without_descriptors() -> Iterable[int]:
    raise OSError(errno.EMFILE, "Too many open files", "/proc/stat")


def elsewhere() -> Iterable[int]:
    raise LookupError("worker 1 runs on another machine")


@pytest.mark.parametrize(
    ("target", "workers", "reason"),
    [
        (Served(unknown="this is a container"), tuple, "this is a container"),
        (Served(99_999_999), tuple, "process 99999999: No such process"),
        (Served(), without_descriptors, "[Errno 24] Too many open files: '/proc/stat'"),
        (Served(), elsewhere, "worker 1 runs on another machine"),
    ],
)
def test_why_it_is_not_known(target: Served, workers: Callable[[], Iterable[int]], reason: str) -> None:
    found = measured(target, workers)
    assert (found.use, found.reason) == (None, reason)


def test_readings_of_an_interval_that_did_not_begin_are_forgotten() -> None:
    use = measured(Served())
    use.discard()
    for each in (use, MachineUse(cast(Target, Served()), tuple)):
        assert each.use is None
        assert "before its measured interval began" in each.reason
