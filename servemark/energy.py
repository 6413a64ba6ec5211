"""Energy meters: joules over a window from NVML (GPU boards) or RAPL (CPU packages, DRAM), never from a guess.

    meter, reason = open_meter("cpu_package")
    if meter is not None:
        meter.start()
        ...
        reading = meter.stop()

A meter that is not there, or that cannot resolve the window, gives None and the reason, never 0. It sees this machine
only: a server elsewhere cannot be metered from here. Sources: NVML API reference, nvmlDeviceGetTotalEnergyConsumption
(Volta and newer) and nvmlDeviceGetPowerUsage; Linux kernel documentation, power/powercap.

The NVML part is tested against a stand-in of the library; it has not yet run on a GPU.
"""

import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

Source = Literal["nvml_total_energy", "nvml_power", "rapl"]
Boundary = Literal["gpu_board", "cpu_package", "dram"]
BOUNDARY_OF_DEVICE: dict[str, Boundary] = {"cpu": "cpu_package", "cuda": "gpu_board"}

POWERCAP = Path("/sys/class/powercap")
# A package's counter wraps after some 260 kJ: ten minutes at 400 W. It must be read more often than that.
COUNTER_PERIOD_S = 10.0
# NVML's power reading is itself refreshed every 20 to 100 ms.
POWER_PERIOD_S = 0.05


@dataclass(frozen=True)
class EnergyReading:
    """Energy over one window; `joules` and `average_w` are None where `reason` says why."""

    joules: float | None
    average_w: float | None
    window_s: float
    samples: int
    source: Source
    boundary: Boundary
    reason: str | None = None


class Availability(NamedTuple):
    """One row of discover()."""

    source: Source
    boundary: Boundary
    available: bool
    reason: str | None


class Sample(NamedTuple):
    """One reading of every part (board, package) of a meter: joules so far, or watts."""

    time_ns: int
    values: tuple[float, ...]


class UnavailableError(Exception):
    """A meter cannot be read; the message is the reason that results and `servemark doctor` show."""


def counted_joules(samples: Sequence[Sample], ranges_j: Sequence[float]) -> float:
    """Energy between the first and the last sample of counters that wrap around at `ranges_j`, summed over parts."""
    total_j = 0.0
    for before, after in itertools.pairwise(samples):
        for a, b, range_j in zip(before.values, after.values, ranges_j, strict=True):
            total_j += b - a if b >= a else b - a + range_j
    return total_j


def integrated_joules(samples: Sequence[Sample]) -> float:
    """Energy of power samples by the trapezoidal rule, summed over parts."""
    return sum(
        (sum(before.values) + sum(after.values)) / 2 * (after.time_ns - before.time_ns) / 1e9
        for before, after in itertools.pairwise(samples)
    )


def _native(module: str, name: str) -> Callable[..., Any]:
    """`module.name` as it was before gevent patched it, so that sampling never runs on the load generator's loop."""
    monkey = sys.modules.get("gevent.monkey")
    original: Callable[..., Any] = (
        monkey.get_original(module, name) if monkey else getattr(importlib.import_module(module), name)
    )
    return original


class _Sampling:
    """A window's samples, taken by an operating-system thread that nobody has to wait for."""

    def __init__(self, read: Callable[[], tuple[float, ...]], period_s: float) -> None:
        self._read, self._period_s = read, period_s
        self._samples: list[Sample] = []
        self._error: str | None = None
        self._stopped = False
        self._take()
        _native("_thread", "start_new_thread")(self._run, ())

    def _take(self) -> None:
        try:
            values = self._read()
        except UnavailableError as error:
            self._error = str(error)
        else:
            self._samples.append(Sample(time.monotonic_ns(), values))

    def _run(self) -> None:
        sleep = _native("time", "sleep")
        while not self._stopped and self._error is None:
            next_s = time.monotonic() + self._period_s
            # Short naps, so that the thread of a counter does not outlive its window by ten seconds.
            while not self._stopped and (left_s := next_s - time.monotonic()) > 0:
                sleep(min(left_s, 0.2))
            if not self._stopped:
                self._take()

    def stop(self) -> tuple[list[Sample], str | None]:
        """Take the last sample and return all of them in order, with what went wrong."""
        self._stopped = True
        self._take()
        return sorted(self._samples), self._error


class Meter:
    """Reads joules over a window; `ranges_j` are the counters' wrap-around points, None for a meter of power."""

    def __init__(
        self,
        source: Source,
        boundary: Boundary,
        read: Callable[[], tuple[float, ...]],
        *,
        ranges_j: Sequence[float] | None,
        period_s: float | None = None,
    ) -> None:
        self.source, self.boundary = source, boundary
        self._read, self._ranges_j = read, ranges_j
        self._period_s = period_s or (POWER_PERIOD_S if ranges_j is None else COUNTER_PERIOD_S)
        self._sampling: _Sampling | None = None

    def start(self) -> None:
        """Begin a window; an open one is given up."""
        if self._sampling is not None:
            self._sampling.stop()
        self._sampling = _Sampling(self._read, self._period_s)

    def stop(self) -> EnergyReading:
        """End the window. Raises RuntimeError when none was begun."""
        if self._sampling is None:
            raise RuntimeError("Meter.stop() without start()")
        samples, reason = self._sampling.stop()
        self._sampling = None
        window_s = (samples[-1].time_ns - samples[0].time_ns) / 1e9 if samples else 0.0
        joules = 0.0
        if reason is None:
            joules = integrated_joules(samples) if self._ranges_j is None else counted_joules(samples, self._ranges_j)
            if joules <= 0:
                reason = f"{self.source} did not move within {window_s:.3f} s: measure a longer window"
        if reason is not None:
            return EnergyReading(None, None, window_s, len(samples), self.source, self.boundary, reason)
        return EnergyReading(joules, joules / window_s, window_s, len(samples), self.source, self.boundary)


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except PermissionError as error:
        raise UnavailableError(f"{path} may be read by root only: sudo chmod a+r {path}") from error
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{path}: {error}") from error


def rapl_meter(boundary: Boundary, powercap: Path = POWERCAP) -> Meter:
    """Meter the CPU packages or the DRAM of all sockets. Raises UnavailableError."""
    wanted = {"cpu_package": "package", "dram": "dram"}[boundary]
    zones = []
    # "intel-rapl:" is AMD's name too; "intel-rapl-mmio:" would count the same package twice.
    for zone in sorted(powercap.glob("intel-rapl:*")):
        try:
            if (zone / "name").read_text().strip().split("-")[0] == wanted:
                zones.append(zone)
        except OSError:
            continue
    if not zones:
        raise UnavailableError(
            f"no {wanted} zone in {powercap}: a virtual machine, a container without /sys, or a processor without RAPL"
        )
    ranges_j = [_read_number(zone / "max_energy_range_uj") / 1e6 for zone in zones]

    def read() -> tuple[float, ...]:
        return tuple(_read_number(zone / "energy_uj") / 1e6 for zone in zones)

    read()
    return Meter("rapl", boundary, read, ranges_j=ranges_j)


def _boards(nvml: ModuleType) -> list[Any]:
    """NVML handles of the GPUs that CUDA_VISIBLE_DEVICES leaves, all of them where it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
        for name in (part.strip() for part in visible.split(","))
        if name
    ]


def nvml_meter(source: Source, nvml: ModuleType | None = None) -> Meter:
    """Meter the visible GPU boards by their energy counters or by their power. Raises UnavailableError."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        boards = _boards(nvml)
    except Exception as error:
        raise UnavailableError(f"NVML: {error}") from error
    if not boards:
        raise UnavailableError("NVML: no GPU, or none that CUDA_VISIBLE_DEVICES leaves")
    total = source == "nvml_total_energy"
    query = nvml.nvmlDeviceGetTotalEnergyConsumption if total else nvml.nvmlDeviceGetPowerUsage

    def read() -> tuple[float, ...]:
        try:
            return tuple(query(board) / 1000 for board in boards)  # mJ or mW
        except nvml.NVMLError as error:
            raise UnavailableError(f"NVML: {error}") from error

    read()
    # 64 bits of millijoules do not wrap; they start anew only when the driver is reloaded.
    return Meter(source, "gpu_board", read, ranges_j=[2**64 / 1000] * len(boards) if total else None)


def _candidates(powercap: Path, nvml: ModuleType | None) -> list[tuple[Source, Boundary, Callable[[], Meter]]]:
    """Every known meter, the better one of a boundary first."""
    return [
        ("nvml_total_energy", "gpu_board", lambda: nvml_meter("nvml_total_energy", nvml)),
        ("nvml_power", "gpu_board", lambda: nvml_meter("nvml_power", nvml)),
        ("rapl", "cpu_package", lambda: rapl_meter("cpu_package", powercap)),
        ("rapl", "dram", lambda: rapl_meter("dram", powercap)),
    ]


def open_meter(
    boundary: Boundary = "cpu_package", *, powercap: Path = POWERCAP, nvml: ModuleType | None = None
) -> tuple[Meter, None] | tuple[None, str]:
    """Open the best meter of a boundary, or say why there is none."""
    reasons = []
    for _, candidate, build in _candidates(powercap, nvml):
        if candidate != boundary:
            continue
        try:
            return build(), None
        except UnavailableError as error:
            reasons.append(str(error))
    return None, "; ".join(dict.fromkeys(reasons))


def discover(*, powercap: Path = POWERCAP, nvml: ModuleType | None = None) -> list[Availability]:
    """Try every meter this module knows, for `servemark doctor`."""
    rows = []
    for source, boundary, build in _candidates(powercap, nvml):
        try:
            build()
        except UnavailableError as error:
            rows.append(Availability(source, boundary, available=False, reason=str(error)))
        else:
            rows.append(Availability(source, boundary, available=True, reason=None))
    return rows
