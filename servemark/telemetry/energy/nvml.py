"""NVML, the counters and the power of GPU boards.

Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption (Volta and newer) and nvmlDeviceGetPowerUsage, which on
Ampere and newer is a mean over the last second: a window should last many.
"""

import importlib
import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from servemark.telemetry.energy.meter import Meter, Source, UnavailableError


def _boards(nvml: ModuleType, gpus: Sequence[int] | None) -> list[Any]:
    """NVML handles of GPUs by their numbers in CUDA, of all that CUDA_VISIBLE_DEVICES leaves where none are given.

    NVML counts along the PCI bus. So does CUDA where all GPUs are alike, or with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    visible = _visible(nvml)
    missing = [number for number in gpus or [] if number >= len(visible)]
    if missing:
        raise UnavailableError(f"NVML sees {len(visible)} of CUDA's GPUs, not number {missing[0]}")
    return visible if gpus is None else [visible[number] for number in gpus]


def _visible(nvml: ModuleType) -> list[Any]:
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

    Raises UnavailableError.
    """
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
        boards = _boards(nvml, gpus)
    except UnavailableError:
        raise
    except Exception as error:
        raise UnavailableError(f"NVML: {error}") from error
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
