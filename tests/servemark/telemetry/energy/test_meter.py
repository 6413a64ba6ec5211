import itertools
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from servemark.telemetry import energy
from servemark.telemetry.energy.meter import Sample, counted_joules, integrated_joules

RANGE_UJ = 262_143_328_850


def zone(root: Path, folder: str, name: str, energy_uj: int) -> Path:
    path = root / folder
    path.mkdir()
    (path / "name").write_text(f"{name}\n")
    (path / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (path / "energy_uj").write_text(f"{energy_uj}\n")
    return path / "energy_uj"


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two sockets with everything Linux shows for them, of which only package-0 and package-1 are CPU packages."""
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 77)
    zone(tmp_path, "intel-rapl:0:1", "dram", 5_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", RANGE_UJ - 1_000_000)
    zone(tmp_path, "intel-rapl:1:0", "dram", 6_000_000)
    zone(tmp_path, "intel-rapl:2", "psys", 99)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_000_000)
    return tmp_path


def opened(boundary: energy.Boundary, powercap: Path) -> energy.Meter:
    meter, reason = energy.open_meter(boundary, powercap=powercap)
    assert meter is not None, reason
    return meter


def test_packages_are_summed_and_wrap_around(powercap: Path) -> None:
    meter = opened("cpu_package", powercap)
    meter.start()
    time.sleep(0.05)
    (powercap / "intel-rapl:0/energy_uj").write_text("4000000")  # + 3 J
    (powercap / "intel-rapl:1/energy_uj").write_text("1000000")  # wrapped: + 2 J
    reading = meter.stop()
    assert reading.joules == pytest.approx(5.0, abs=1e-4)
    assert reading.window_s >= 0.05
    assert reading.average_w == pytest.approx(5.0 / reading.window_s, abs=0.01)
    assert (reading.samples, reading.source, reading.boundary, reading.reason) == (2, "rapl", "cpu_package", None)


def test_dram_is_a_boundary_of_its_own(powercap: Path) -> None:
    meter = opened("dram", powercap)
    meter.start()
    time.sleep(0.01)
    (powercap / "intel-rapl:0:1/energy_uj").write_text("5500000")
    reading = meter.stop()
    assert reading.joules == pytest.approx(0.5)
    assert reading.boundary == "dram"


def test_many_wraps_are_seen_by_the_sampler() -> None:
    # A counter of range 100: + 60, 60, 60, 60; then it stands still, however often it is read.
    values = itertools.chain([0.0, 60.0, 20.0, 80.0], itertools.repeat(40.0))
    meter = energy.Meter("rapl", "cpu_package", lambda: (next(values),), ranges_j=[100.0], period_s=0.02)
    meter.start()
    sampling = meter._sampling
    assert sampling is not None
    deadline = time.monotonic() + 10
    while len(sampling._samples) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    reading = meter.stop()
    assert reading.joules == 240.0
    assert reading.samples >= 5


def test_one_reading_at_a_time() -> None:
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
        return (float(len(overlaps)),)

    meter = energy.Meter("rapl", "cpu_package", read, ranges_j=[100.0], period_s=0.01)
    meter.start()
    meeting.clear()
    assert reading.wait(10)
    assert meter.stop().joules == 1
    assert overlaps == [False, False]


def test_pure_sums() -> None:
    samples = [Sample(0, (10.0, 0.0)), Sample(10**9, (30.0, 10.0)), Sample(3 * 10**9, (10.0, 10.0))]
    assert integrated_joules(samples) == (10 + 40) / 2 * 1 + (40 + 20) / 2 * 2
    assert counted_joules(samples, [40.0, 40.0]) == 20 + 10 + 20 + 0


def test_a_window_that_the_counter_cannot_resolve_is_none(powercap: Path) -> None:
    meter = opened("cpu_package", powercap)
    meter.start()
    reading = meter.stop()
    assert (reading.joules, reading.average_w) == (None, None)
    assert "measure a longer window" in str(reading.reason)


def test_a_meter_lost_on_the_way_is_none(powercap: Path) -> None:
    meter = opened("cpu_package", powercap)
    meter.start()
    (powercap / "intel-rapl:0/energy_uj").unlink()
    reading = meter.stop()
    assert reading.joules is None
    assert "intel-rapl:0/energy_uj" in str(reading.reason)


def test_a_new_window_forgets_the_old_one(powercap: Path) -> None:
    meter = opened("cpu_package", powercap)
    counter = powercap / "intel-rapl:0/energy_uj"
    meter.start()
    counter.write_text("9000000")
    meter.start()
    time.sleep(0.01)
    counter.write_text("9500000")
    assert meter.stop().joules == pytest.approx(0.5)
    with pytest.raises(RuntimeError, match="without start"):
        meter.stop()


def test_no_powercap_has_a_reason(tmp_path: Path) -> None:
    meter, reason = energy.open_meter("cpu_package", powercap=tmp_path)
    assert meter is None
    assert f"no package zone in {tmp_path}" in str(reason)


def test_permission_denied_has_the_command() -> None:
    # Root reads everything, so ask as nobody; pytest's own folders are closed to that user.
    with tempfile.TemporaryDirectory() as name:
        powercap = Path(name)
        counter = zone(powercap, "intel-rapl:0", "package-0", 1)
        (powercap / "intel-rapl:0").chmod(0o755)
        powercap.chmod(0o755)
        counter.chmod(0o000)
        code = (
            "import os, sys; from pathlib import Path; from servemark.telemetry import energy\n"
            "if os.geteuid() == 0: os.setuid(65534)\n"
            "print(energy.open_meter('cpu_package', powercap=Path(sys.argv[1])))"
        )
        command = [sys.executable, "-c", code, str(powercap)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.startswith("(None, ")
    assert f"sudo chmod a+r {counter}" in done.stdout


class NvmlError(Exception):
    pass


class Boards:
    """NVML with two boards of 100 W and 200 W."""

    def __init__(self, *, total_energy: bool = True) -> None:
        self.begin = time.monotonic()
        self.threads: set[int] = set()
        self.nvml = ModuleType("pynvml")
        self.nvml.__dict__.update(
            NVMLError=NvmlError,
            nvmlInit=lambda: None,
            nvmlDeviceGetCount=lambda: 2,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-a": 0, "GPU-b": 1}[uuid],
            nvmlDeviceGetTotalEnergyConsumption=self.total_energy if total_energy else self.unsupported,
            nvmlDeviceGetPowerUsage=self.power,
        )

    def total_energy(self, board: int) -> int:
        return int((time.monotonic() - self.begin) * 100_000 * (board + 1))

    def power(self, board: int) -> int:
        self.threads.add(threading.get_ident())
        return 100_000 * (board + 1)

    def unsupported(self, board: int) -> int:
        raise NvmlError(f"Not Supported on {board}")


@pytest.fixture(autouse=True)
def _all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(("visible", "watts"), [(None, 300), ("1", 200), ("GPU-a", 100), ("0,GPU-b", 300)])
@pytest.mark.parametrize("total_energy", [True, False])
def test_gpu_boards(total_energy: bool, visible: str | None, watts: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    meter, reason = energy.open_meter("gpu_board", nvml=Boards(total_energy=total_energy).nvml)
    assert meter is not None, reason
    meter.start()
    time.sleep(0.3)
    reading = meter.stop()
    assert reading.average_w == pytest.approx(watts, rel=0.05)
    assert (reading.source, reading.boundary) == ("nvml_total_energy" if total_energy else "nvml_power", "gpu_board")
    assert reading.samples == 2 if total_energy else reading.samples >= 4


@pytest.mark.parametrize(
    ("visible", "gpus", "watts"), [(None, [1], 200), (None, [0, 1], 300), ("1", [0], 200), ("1,0", [1], 100)]
)
def test_only_the_boards_that_a_model_runs_on_are_metered(
    visible: str | None, gpus: list[int], watts: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers are CUDA's, which counts what CUDA_VISIBLE_DEVICES leaves."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    boards = Boards(total_energy=False)
    meter, reason = energy.open_meter("gpu_board", gpus=gpus, nvml=boards.nvml)
    assert meter is not None, reason
    meter.start()
    time.sleep(0.1)
    assert meter.stop().average_w == pytest.approx(watts)
    meter, reason = energy.open_meter("gpu_board", gpus=[0, 2], nvml=boards.nvml)
    assert meter is None
    assert reason == f"NVML sees {1 if visible == '1' else 2} of CUDA's GPUs, not number 2"


def test_no_visible_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    meter, reason = energy.open_meter("gpu_board", nvml=Boards().nvml)
    assert meter is None
    assert "no GPU" in str(reason)


def test_power_is_sampled_by_another_thread() -> None:
    boards = Boards(total_energy=False)
    meter, _ = energy.open_meter("gpu_board", nvml=boards.nvml)
    assert meter is not None
    meter.start()
    deadline = time.monotonic() + 10
    while len(boards.threads) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    meter.stop()
    assert len(boards.threads) == 2


def test_discover(powercap: Path) -> None:
    rows = energy.discover(powercap=powercap, nvml=Boards(total_energy=False).nvml)
    assert [(row.source, row.boundary, row.available) for row in rows] == [
        ("nvml_total_energy", "gpu_board", False),
        ("nvml_power", "gpu_board", True),
        ("rapl", "cpu_package", True),
        ("rapl", "dram", True),
    ]
    assert rows[0].reason == "NVML: Not Supported on 0"


def test_sampling_does_not_hold_up_gevent() -> None:
    """A slow meter must not stop the load generator's greenlets, which share one operating-system thread."""
    code = """
import gevent.monkey; gevent.monkey.patch_all()
import time, gevent
from servemark.telemetry.energy import Meter
sleep = gevent.monkey.get_original("time", "sleep")
calls = []
def read():
    calls.append(1)
    if len(calls) > 1: sleep(0.25)          # blocks its thread, as a driver call does
    return (10.0,)
meter = Meter("nvml_power", "gpu_board", read, ranges_j=None, period_s=0.01)
meter.start()
begin = last = time.monotonic()
gaps = []
for _ in range(100):
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
