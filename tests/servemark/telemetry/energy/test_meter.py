"""Meters of all kinds over windows: what they add up to, and every way in which one does not tell."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from servemark.telemetry import energy
from servemark.telemetry.energy import meter as meters
from servemark.telemetry.energy.meter import (
    Boundary,
    EnergyReading,
    Meter,
    Sample,
    Source,
    UnavailableError,
    counted_joules,
    integrated_joules,
)
from tests.doubles.nvml import NOT_SUPPORTED, Nvml
from tests.support.locust_run import until

S = 1_000_000_000
STEP_S = 0.1
"""Of a trace."""
RANGE_UJ = 262_143_328_850


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No reading but those at the ends of a window, however slow this machine is."""
    monkeypatch.setattr(meters, "COUNTER_PERIOD_S", 1e3)


def zone(root: Path, folder: str, name: str, energy_uj: int) -> Path:
    path = root / folder
    path.mkdir()
    (path / "name").write_text(f"{name}\n")
    (path / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (path / "energy_uj").write_text(f"{energy_uj}\n")
    return path / "energy_uj"


@pytest.fixture
def powercap(tmp_path: Path, unhurried: None) -> Path:  # noqa: ARG001 - as a fixture
    """Two sockets with everything Linux shows for them, of which only package-0 and package-1 are CPU packages."""
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 77)
    zone(tmp_path, "intel-rapl:0:1", "dram", 5_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", RANGE_UJ - 1_000_000)
    zone(tmp_path, "intel-rapl:1:0", "dram", 6_000_000)
    zone(tmp_path, "intel-rapl:2", "psys", 99)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_000_000)
    return tmp_path


def opened(boundary: Boundary, powercap: Path) -> Meter:
    meter, reason = energy.open_meter(boundary, powercap=powercap)
    assert meter is not None, reason
    return meter


def test_packages_are_summed_and_wrap_around_and_dram_is_a_boundary_of_its_own(powercap: Path) -> None:
    meter, dram = opened("cpu_package", powercap), opened("dram", powercap)
    meter.start()
    dram.start()
    time.sleep(0.05)
    (powercap / "intel-rapl:0/energy_uj").write_text("4000000")  # + 3 J
    (powercap / "intel-rapl:1/energy_uj").write_text("1000000")  # wrapped: + 2 J
    (powercap / "intel-rapl:0:1/energy_uj").write_text("5500000")  # + 0.5 J
    reading, of_dram = meter.stop(), dram.stop()
    assert of_dram.boundary == "dram"
    assert of_dram.joules == pytest.approx(0.5)
    assert reading.joules == pytest.approx(5.0, abs=1e-4)
    assert reading.window_s >= 0.05
    assert reading.average_w == pytest.approx(5.0 / reading.window_s, abs=0.01)
    assert (reading.samples, reading.source, reading.boundary, reading.reason) == (2, "rapl", "cpu_package", None)


def readings(meter: Meter, values: Iterable[float], step_s: float = 1.0) -> EnergyReading:
    """Read these values by a meter of one part, one for each step."""
    return meter.evaluate([Sample(round(step * step_s * S), (value,)) for step, value in enumerate(values)])


def meter_of(source: Source, ranges_j: list[float] | None) -> Meter:
    """A meter of one part that is not read."""
    return Meter(source, "any", lambda: (0.0,), ranges_j=ranges_j)


RAPL, COUNTER, POWER = meter_of("rapl", [1000.0]), meter_of("nvml_total_energy", [1000.0]), meter_of("nvml_power", None)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([(900 + 300 * step) % 1000 for step in range(11)], 3000),
        ([10, 110, 90, 120], 1110),
        ([10, 20, 20, 40], "rapl: the counter stood still at 20 J for 1 s"),
        ([10, 10], "rapl: the counter stood still at 10 J for 1 s"),
        ([2e4, 2.01e4, 50.0], "rapl: the counter went from 20100 to 50 J within 1 s"),
        ([10, 20_100], "rapl: the counter went from 10 to 20100 J within 1 s"),
    ],
    ids=["wrapped around often", "wrapped around", "stuck on the way", "stuck", "began anew", "leapt"],
)
def test_a_counter_tells_only_where_it_moves_as_one_can(values: list[float], found: float | str) -> None:
    reading = readings(meter_of("rapl", [1e6 if max(values) > 1000 else 1000.0]), values)
    assert (reading.reason or reading.joules) == found
    assert (reading.joules is None) == (reading.reason is not None)


def test_a_counter_s_step_may_come_between_two_readings_that_are_closer() -> None:
    assert COUNTER.joules([Sample(0, (10.0,)), Sample(S // 200, (80.0,))]) == 70  # 700 W, refreshed every 0.1 s
    with pytest.raises(UnavailableError, match=r"from 0 to 2000 J within 0\.005 s"):
        meter_of("nvml_total_energy", [1e6]).joules([Sample(0, (0.0,)), Sample(S // 200, (2000.0,))])


def test_one_part_of_several_that_stands_still_is_enough() -> None:
    with pytest.raises(UnavailableError, match="stood still at 7 J"):
        counted_joules([Sample(0, (1.0, 7.0)), Sample(2 * S, (90.0, 7.0))], [1000.0, 1000.0])


@pytest.mark.parametrize(
    ("meter", "values", "step_s", "words"),
    [
        (RAPL, [1, 2], 0.0195, "rapl: it is refreshed every 0.001 s, 20 times in 0.0195 s: 20 refreshes are needed, "),
        (POWER, [100, 100], 10, "nvml_power: it is refreshed every 1 s, 10 times in 10 s: 20 refreshes are needed, "),
        (POWER, [100], 1, "nvml_power: it is refreshed every 1 s, 0 times in 0 s: 20 refreshes are needed, so "),
        (COUNTER, [1, 2], 0.3, "nvml_total_energy: it is refreshed every 0.1 s, 3 times in 0.3 s: 20 refreshes are "),
        (RAPL, [1, 1], 0.5, "rapl: it did not move within 0.500 s: measure a longer window"),
        (POWER, [100, 100], 20, None),
        (COUNTER, [1, 2], 2, None),
    ],
)
def test_a_window_that_the_meter_cannot_resolve_is_refused(
    meter: Meter, values: list[float], step_s: float, words: str | None
) -> None:
    reading = readings(meter, values, step_s)
    assert (reading.reason or "").startswith(words or "")
    assert (reading.reason is None) == (words is None)
    assert ((reading.joules, reading.average_w) == (None, None)) == (words is not None)


def test_a_trailing_mean_is_off_by_few_percent_after_a_step() -> None:
    """The power rises from 100 to 300 W when the window begins; NVML shows the mean of the last second."""
    steps = [100 + 200 * min(step * STEP_S, 1.0) for step in range(201)]
    reading = readings(POWER, steps, STEP_S)
    assert reading.average_w == pytest.approx(300, rel=0.025)
    assert readings(POWER, steps[:190], STEP_S).joules is None


def test_the_joules_of_parts_of_a_window() -> None:
    counter = meter_of("nvml_total_energy", [100.0])
    counter.samples = [Sample(round(each * S), (each * 30 % 100,)) for each in range(11)]
    assert counter.joules_until([0, 2.5 * S, 10 * S, 11 * S]) == pytest.approx([0, 75, 300, 300])
    assert counter.resolved_s == pytest.approx(2)


def test_a_counter_that_is_read_often_and_seldom_moves_is_not_stuck() -> None:
    assert readings(COUNTER, [each // 4 for each in range(40)], 0.1).joules == 9
    stuck = readings(COUNTER, [1.0, 2.0, *[3.0] * 30], 0.1)
    assert "stood still at 3 J for 1 s" in str(stuck.reason)


def test_one_reading_at_a_time(unhurried: None) -> None:  # noqa: ARG001 - as a fixture
    """A reading that is stamped after a later one has a counter go back, which would be a wrap-around of 260 kJ."""
    reading, meeting = threading.Event(), threading.Event()
    overlaps: list[bool] = []
    main = threading.get_ident()

    def read() -> tuple[float, ...]:
        if threading.get_ident() == main:
            overlaps.append(reading.is_set())
            meeting.set()
        else:
            reading.set()
            meeting.wait(0.3)  # nobody comes
            reading.clear()
        return (100.0,)

    meter = Meter("nvml_power", "gpu_board", read, ranges_j=None, period_s=0.01)
    meter.start()
    meeting.clear()
    assert reading.wait(10)
    assert meter.stop().samples >= 2
    assert overlaps == [False, False]


def test_pure_sums() -> None:
    samples = [Sample(0, (10.0, 0.0)), Sample(S, (30.0, 10.0)), Sample(3 * S, (10.0, 15.0))]
    assert integrated_joules(samples) == (10 + 40) / 2 * 1 + (40 + 25) / 2 * 2
    assert counted_joules(samples, [40.0, 40.0]) == 20 + 10 + 20 + 5


def test_a_new_window_forgets_the_old_one_and_a_meter_lost_on_the_way_is_none(powercap: Path) -> None:
    meter = opened("cpu_package", powercap)
    counter = powercap / "intel-rapl:0/energy_uj"
    meter.start()
    counter.write_text("9000000")
    meter.start()
    time.sleep(0.03)
    counter.write_text("9500000")
    (powercap / "intel-rapl:1/energy_uj").write_text(f"{RANGE_UJ - 500_000}")
    assert meter.stop().joules == pytest.approx(1.0)
    with pytest.raises(RuntimeError, match="without start"):
        meter.stop()
    meter.start()
    counter.unlink()
    reading = meter.stop()
    assert (reading.joules, "intel-rapl:0/energy_uj" in str(reading.reason)) == (None, True)


def test_what_cannot_be_read_has_a_reason(powercap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def refuse(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError
        return read(path)

    meter, reason = energy.open_meter("cpu_package", powercap=powercap / "none")
    assert (meter, f"no package zone in {powercap}/none" in str(reason)) == (None, True)
    monkeypatch.setattr(Path, "read_text", refuse)
    meter, reason = energy.open_meter("cpu_package", powercap=powercap)
    assert (meter, f"sudo chmod a+r {powercap}/intel-rapl:0/energy_uj" in str(reason)) == (None, True)


def test_power_is_sampled_by_another_thread() -> None:
    threads: set[int] = set()

    def read() -> tuple[float, ...]:
        threads.add(threading.get_ident())
        return (100.0,)

    meter = Meter("nvml_power", "gpu_board", read, ranges_j=None)
    meter.start()
    until(lambda: len(threads) == 2, "another thread")
    meter.stop()
    assert threading.get_ident() in threads, "it is read here at the start and the end"


def test_discover(powercap: Path) -> None:
    rows = [*energy.discover(powercap=powercap, nvml=Nvml({"energy_mj": [NOT_SUPPORTED]}))]
    assert [(row.source, row.boundary, row.reason is None) for row in rows] == [
        ("nvml_total_energy", "gpu_board", False),
        ("nvml_power", "gpu_board", True),
        ("rapl", "cpu_package", True),
        ("rapl", "dram", True),
    ]
    assert rows[0].reason == "NVML: Not Supported"


def test_sampling_does_not_hold_up_gevent() -> None:
    """A slow meter must not stop the load generator's greenlets, which share one operating-system thread."""
    code = """
import gevent.monkey; gevent.monkey.patch_all()
import time, gevent
from servemark.telemetry.energy.meter import Meter
sleep = gevent.monkey.get_original("time", "sleep")
calls = []
def read():
    calls.append(1)
    if len(calls) > 1: sleep(0.25)          # blocks its thread, as a driver call does
    return (10.0,)
meter = Meter("power_command", "wall", read, ranges_j=None, period_s=0.01)
meter.start()
begin = last = time.monotonic()
gaps = []
for _ in range(120):
    gevent.sleep(0.01)
    gaps.append(time.monotonic() - last)
    last = time.monotonic()
reading = meter.stop()
print(len(calls), sorted(gaps)[len(gaps) // 2], reading.joules / reading.average_w, time.monotonic() - begin)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    calls, gap_s, metered_s, took_s = (float(word) for word in done.stdout.split())
    assert calls >= 3
    assert gap_s < 0.2  # the one in the middle; a loop that is held up has 0.25 s in each
    assert metered_s == pytest.approx(took_s, rel=0.5)
