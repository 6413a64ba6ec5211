"""NVML, the counters and the power of GPU boards; tested against a stand-in, it has not run on a GPU yet.

Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption (Volta and newer) and nvmlDeviceGetPowerUsage.
"""

import importlib
import os
from types import ModuleType
from typing import Any

from servemark.energy._meter import Meter, Source, UnavailableError


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
