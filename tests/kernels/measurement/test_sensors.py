"""Sensors: joules of a call from a meter, clocks of CPUs and boards, and reasons where there are none."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.measurement import sensors
from kernels.measurement.sensors import NO_CLOCK, Sensors, _of_board
from servemark.results.schema.header import reason_of
from servemark.stats.unknown import unknown
from servemark.telemetry.energy.meter import Meter
from servemark.telemetry.recording import Column


@pytest.fixture
def without_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "open_meter", lambda *_, **__: (None, "no package zone"))


def clocks(root: Path, *khz: int) -> Path:
    for number, each in enumerate(khz):
        (root / f"cpu{number}" / "cpufreq").mkdir(parents=True)
        (root / f"cpu{number}" / "cpufreq" / "scaling_cur_freq").write_text(f"{each}\n")
    return root


@pytest.mark.usefixtures("without_meter")
def test_where_nothing_can_be_read_nothing_is_called(tmp_path: Path) -> None:
    called: list[int] = []
    found = Sensors("cpu", tmp_path).feel(lambda: called.append(1), lambda: None, 1e-3)
    assert called == []
    assert [found[key] for key in ("joules", "clock_mhz", "throttled")] == [None] * 3
    assert reason_of(found, "joules") == "no package zone"
    assert reason_of(found, "throttled") == NO_CLOCK


@pytest.mark.usefixtures("without_meter")
def test_the_clock_is_the_mean_of_all_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "WINDOW_S", 0.001)
    found = Sensors("cpu", clocks(tmp_path, 3_000_000, 2_000_000)).feel(lambda: None, lambda: None, 1e-3)
    assert found["clock_mhz"] == 2500
    assert (found["throttled"], "why" in str(reason_of(found, "throttled"))) == (None, True)


def test_joules_are_those_of_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [0]

    def call() -> None:
        calls[0] += 1

    meter = Meter("rapl", "cpu_package", lambda: (0.5 * calls[0],), ranges_j=[1e9])
    monkeypatch.setattr(sensors, "open_meter", lambda *_, **__: (meter, None))
    monkeypatch.setattr(sensors, "WINDOW_S", 0.001)  # the meter's refreshes make it longer
    monkeypatch.setattr("servemark.telemetry.energy.meter.MOST_W", float("inf"))
    assert Sensors("cpu", tmp_path).feel(call, lambda: None, 1e-3)["joules"] == pytest.approx(0.5)


@pytest.mark.usefixtures("without_meter")
@pytest.mark.parametrize(("seconds", "most_queued"), [(0.1, 1), (0.05, 2), (1e-9, sensors.QUEUED)])
def test_a_device_that_takes_calls_at_once_is_waited_for_within_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, most_queued: int
) -> None:
    now, queued, seen = [0.0], [0], set[int]()

    def wait() -> None:
        now[0] += queued[0] * seconds
        seen.add(queued[0])
        queued[0] = 0

    def call() -> None:
        queued[0] += 1
        now[0] += 1e-4

    monkeypatch.setattr(sensors, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    Sensors("cpu", clocks(tmp_path, 3_000_000)).feel(call, wait, seconds)
    assert max(seen) == most_queued
    assert now[0] < 2 * sensors.WINDOW_S


def test_a_board_says_why_its_clock_is_held_back() -> None:
    labels = (("gpu", "0"),)
    reading: dict[Column, Any] = {
        Column("gpu_sm_clock_hertz", "hertz", labels): 1.5e9,
        Column("gpu_throttled", "ratio", (*labels, ("reason", "sw_power_cap"))): 1.0,
        Column("gpu_throttled", "ratio", (*labels, ("reason", "hw_thermal"))): 0.0,
    }
    keys = ("clock_mhz", "throttled")
    assert _of_board(reading) == {"clock_mhz": 1500, "throttled": ["sw_power_cap"]}
    assert _of_board(dict.fromkeys(reading, "NVML: lost")) == dict.fromkeys(keys, unknown("NVML: lost"))
