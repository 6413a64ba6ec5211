"""The counters and the power of this machine's parts: GPU boards by NVML and amdsmi, CPU packages and DRAM by RAPL.

Sources: NVML API reference, nvmlDeviceGetTotalEnergyConsumption (Volta and newer) and nvmlDeviceGetPowerUsage, which on
Ampere and newer is a mean over the last second: a window should last many. AMD SMI documentation,
amdsmi_get_energy_count: an accumulator, and the µJ that one step of it stands for. Linux kernel documentation,
power/powercap.
"""

import importlib
import importlib.util
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from servemark.telemetry.energy.meter import Boundary, Meter, Source, UnavailableError


def _chosen(boards: Sequence[Any], gpus: Sequence[int] | None, seen: str) -> list[Any]:
    """Return boards by their numbers, all where none are given. Raises UnavailableError with how many are seen."""
    missing = [number for number in gpus or [] if number >= len(boards)]
    if missing:
        raise UnavailableError(f"{seen}, not number {missing[0]}")
    return [*boards] if gpus is None else [boards[number] for number in gpus]


def _visible(nvml: ModuleType) -> list[Any]:
    """NVML handles of the GPUs that CUDA_VISIBLE_DEVICES leaves."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
        for name in (part.strip() for part in visible.split(","))
        if name
    ]


def open_boards(nvml: ModuleType | None = None, gpus: Sequence[int] | None = None) -> tuple[ModuleType, list[Any]]:
    """NVML, by default the package `pynvml`, and the handles of GPUs by their numbers in CUDA, or of all visible ones.

    NVML counts along the PCI bus. So does CUDA where all GPUs are alike, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    Raises UnavailableError.
    """
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        visible = _visible(nvml)
    except Exception as error:
        raise UnavailableError(f"NVML: {error}") from error
    boards = _chosen(visible, gpus, f"NVML sees {len(visible)} of CUDA's GPUs")
    if not boards:
        raise UnavailableError("NVML: no GPU, or none that CUDA_VISIBLE_DEVICES leaves")
    return nvml, boards


def _refuse_divided(nvml: ModuleType, boards: Sequence[Any]) -> None:
    """An instance of a divided board has no counter, and the board's has what other instances use.

    Raises UnavailableError.
    """
    for board in boards:
        try:
            divided = nvml.nvmlDeviceIsMigDeviceHandle(board) or nvml.nvmlDeviceGetMigMode(board)[0]
        except nvml.NVMLError:
            continue  # a board that cannot be divided
        if divided:
            raise UnavailableError(
                f"GPU {nvml.nvmlDeviceGetIndex(board)} is divided (MIG): its counter has what all instances use"
            )


def nvml_meter(source: Source, nvml: ModuleType | None = None, gpus: Sequence[int] | None = None) -> Meter:
    """Meter GPU boards, the visible ones where none are given, by energy counters or power. Raises UnavailableError."""
    nvml, boards = open_boards(nvml, gpus)
    _refuse_divided(nvml, boards)
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


VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""In their order: HIP counts what ROCr leaves."""


def installed() -> bool:
    """Return True if AMD's library is installed."""
    return importlib.util.find_spec("amdsmi") is not None


def amd_meter(amdsmi: ModuleType | None = None, gpus: Sequence[int] | None = None) -> Meter:
    """Meter GPUs by their numbers in HIP, the visible ones where none are given. Raises UnavailableError."""
    try:
        amdsmi = amdsmi or importlib.import_module("amdsmi")
        amdsmi.amdsmi_init()
        boards = _visible_in_hip(amdsmi.amdsmi_get_processor_handles())
    except UnavailableError:
        raise
    except Exception as error:
        raise UnavailableError(f"amdsmi: {error}") from error
    seen = f"amdsmi sees {len(boards)} of HIP's GPUs"
    chosen = _chosen(boards, gpus, seen)
    if not boards:
        raise UnavailableError(seen)
    library = amdsmi

    def counts() -> list[tuple[int, float]]:
        try:
            found = [library.amdsmi_get_energy_count(board) for board in chosen]
            # Before ROCm 6.2 the accumulator was called power.
            return [(int(c.get("energy_accumulator", c.get("power"))), float(c["counter_resolution"])) for c in found]
        except Exception as error:
            raise UnavailableError(f"amdsmi: {error}") from error

    def read() -> tuple[float, ...]:
        return tuple(steps * step_uj / 1e6 for steps, step_uj in counts())

    ranges_j = [2**64 * step_uj / 1e6 for _, step_uj in counts()]
    return Meter("amdsmi", "gpu_board", read, ranges_j=ranges_j)


def _visible_in_hip(boards: Sequence[Any]) -> list[Any]:
    """Those that the environment leaves, without a negative number and what follows it.

    Raises UnavailableError where it names them otherwise than by numbers.
    """
    left = list(boards)
    for name in VISIBLE:
        if (text := os.environ.get(name)) is not None:
            try:
                numbers = [int(number) for number in text.split(",") if number.strip()]
                left = [left[number] for number in itertools.takewhile(lambda number: number >= 0, numbers)]
            except (ValueError, IndexError) as error:
                raise UnavailableError(f"amdsmi: {name}={text} is not a list of its numbers") from error
    return left


POWERCAP = Path("/sys/class/powercap")


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
