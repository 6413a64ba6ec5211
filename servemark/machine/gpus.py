"""The GPU boards of this machine, as NVML describes them; what cannot be read is None."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypedDict


class Gpu(TypedDict):
    """One GPU board as NVML describes it."""

    index: Annotated[int, "Number of the board."]
    name: Annotated[str, "Name of the board."]
    uuid: Annotated[str | None, "Its unique name."]
    memory_gb: Annotated[float | None, "Memory (GB)."]
    compute_capability: Annotated[str | None, "CUDA's compute capability."]
    sm_clock_max_mhz: Annotated[int | None, "Highest clock of the multiprocessors (MHz)."]
    memory_clock_max_mhz: Annotated[int | None, "Highest clock of the memory (MHz)."]
    power_limit_w: Annotated[float | None, "Power limit (W)."]
    persistence_mode: Annotated[bool | None, "Whether the driver stays loaded."]
    mig_mode: Annotated[bool | None, "Whether the board is divided (MIG)."]


class Boards(NamedTuple):
    """NVML's description of this machine's GPUs."""

    gpus: list[Gpu]
    reason: str | None
    """Reason why there are none."""
    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA version that the driver supports."""


def boards(nvml: ModuleType | None = None) -> Boards:
    """Ask NVML, by default the package `pynvml`."""
    try:
        nvml = nvml or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:
        return Boards([], f"NVML: {error}")

    def ask(name: str, *arguments: object) -> Any:
        try:
            answer = getattr(nvml, name)(*arguments)
        except nvml.NVMLError:
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    try:
        gpus = [_gpu(nvml, ask, index) for index in range(nvml.nvmlDeviceGetCount())]
        version = ask("nvmlSystemGetCudaDriverVersion")
        cuda = None if version is None else f"{version // 1000}.{version % 1000 // 10}"
        return Boards(gpus, None if gpus else "NVML: no GPU", ask("nvmlSystemGetDriverVersion"), cuda)
    except nvml.NVMLError as error:
        return Boards([], f"NVML: {error}")
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ModuleType, ask: Callable[..., Any], index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    power_limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit", handle)
    persistence = ask("nvmlDeviceGetPersistenceMode", handle)
    mig = ask("nvmlDeviceGetMigMode", handle)
    return {
        "index": index,
        "name": ask("nvmlDeviceGetName", handle) or "unnamed",
        "uuid": ask("nvmlDeviceGetUUID", handle),
        "memory_gb": None if memory is None else round(memory.total / 1e9, 1),
        "compute_capability": None if capability is None else "{}.{}".format(*capability),
        "sm_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
        "power_limit_w": None if power_limit_mw is None else power_limit_mw / 1000,
        "persistence_mode": None if persistence is None else bool(persistence),
        "mig_mode": None if mig is None else bool(mig[0]),
    }
