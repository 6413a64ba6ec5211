"""Environment of a measurement, for result.json: hardware, operating system, library versions, state of the code.

Whatever cannot be read is None; nothing here raises, imports a framework or takes longer than a few tens of
milliseconds, since every run calls it. GPU boards are as NVML describes them.
"""

import datetime
import functools
import importlib
import os
import platform
import socket
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar

import psutil

from servemark.machine import limits
from servemark.paths import CHECKOUT


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


VNNI = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "asimddp"})
"""Each sums 8-bit products in 32 bits. Without any, x86 sums pairs of them in 16, which overflow."""
# Those whose version can move a figure.
PACKAGES = (
    *("servemark", "numpy", "locust", "gevent", "geventhttpclient", "hdrhistogram"),
    *("onnxruntime", "onnxruntime-gpu", "onnx", "onnxscript", "torch", "torchvision", "triton"),
    *("tensorrt", "tensorrt-rtx-cu13-bindings", "tensorflow", "tensorflow-cpu", "openvino", "nncf"),
    *("tritonclient", "nvidia-pytriton", "nvidia-ml-py", "grpcio"),
)
# Those that change how many threads, or which devices, a framework takes.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "LD_PRELOAD",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TORCH_NUM_THREADS",
)
GIT_TIMEOUT_S = 2.0
T = TypeVar("T")
_SYS = Path("/sys")


class Environment(TypedDict):
    """The machine, its software and the state of the code. GB are 10^9 bytes. Null: it cannot be read."""

    collected: Annotated[str, "When it was read: UTC, ISO 8601."]
    hostname: Annotated[str, "Name of the machine."]
    cpu: Annotated[str | None, "Name of the CPU."]
    cores: Annotated[int, "Cores that this process may use, by affinity and quota."]
    cores_physical: Annotated[int | None, "Physical cores of the machine."]
    cores_logical: Annotated[int | None, "Hardware threads of the machine."]
    cores_affinity: Annotated[int, "Cores of this process's affinity."]
    cpu_quota: Annotated[float | None, "Limit of the control groups, in cores. Null: none."]
    cores_limited_by: Annotated[str, "What limits the cores: machine, affinity (a cpuset, taskset) or quota."]
    cpu_governor: Annotated[str | None, "How the CPU chooses its frequency."]
    cpu_max_mhz: Annotated[float | None, "Highest frequency of the CPU (MHz)."]
    memory_gb: Annotated[float, "Memory of the machine (GB)."]
    memory_limit_gb: Annotated[float | None, "Limit of the control groups (GB). Null: none."]
    load_average: Annotated[list[float] | None, "Mean run queue over 1, 5 and 15 minutes."]
    container: Annotated[str | None, "Kind of container: docker, podman or kubernetes."]
    virtual_machine: Annotated[str | None, "Vendor of the virtual machine."]
    gpus: Annotated[list[Gpu], "GPU boards. Empty: `gpus_reason` says why."]
    gpus_reason: Annotated[str | None, "Why there is no GPU board."]
    driver: Annotated[str | None, "Version of the GPU driver."]
    cuda: Annotated[str | None, "Newest CUDA version that the driver supports."]
    os: Annotated[str, "Operating system."]
    kernel: Annotated[str, "Version of the kernel."]
    python: Annotated[str, "Version of Python."]
    packages: Annotated[dict[str, str], "Package whose version can move a figure -> version."]
    variables: Annotated[dict[str, str], "Environment variable that changes how engines run -> value."]
    git_commit: Annotated[str | None, "Commit of the checkout."]
    git_dirty: Annotated[bool | None, "Whether tracked files differ from the commit."]


def collect() -> Environment:
    """Describe this machine and this checkout now."""
    found = boards()
    git_commit, git_dirty = _git()
    cores, memory = limits.cores(), limits.memory()
    return {
        "collected": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hostname": socket.gethostname(),
        "cpu": _cpu_field("model name") or platform.processor() or platform.machine() or None,
        "cores": cores.allowed,
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": psutil.cpu_count(),
        "cores_affinity": cores.affinity,
        "cpu_quota": cores.quota,
        "cores_limited_by": cores.limited_by,
        "cpu_governor": _read(_SYS / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cpu_max_mhz": _cpu_max_mhz(),
        "memory_gb": _gb(memory.machine_bytes),
        "memory_limit_gb": None if memory.limit_bytes is None else _gb(memory.limit_bytes),
        "load_average": _try(lambda: [round(load, 2) for load in os.getloadavg()]),
        "container": _container(),
        "virtual_machine": virtual_machine(),
        "gpus": found.gpus,
        "gpus_reason": found.reason,
        "driver": found.driver,
        "cuda": found.cuda,
        "os": _os_name(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {**_packages()},
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "git_commit": git_commit,
        "git_dirty": git_dirty,
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _try(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except (OSError, ValueError, KeyError):
        return None


def _gb(size_bytes: int) -> float:
    return round(size_bytes / 1e9, 1)


def _cpu_field(name: str) -> str | None:
    for line in (_read(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip() or None
    return None


def _cpu_max_mhz() -> float | None:
    text = _read(_SYS / "devices/system/cpu/cpu0/cpufreq/scaling_max_freq")
    return _try(lambda: float(text or "") / 1000)


def _container() -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    return None


def virtual_machine() -> str | None:
    """The vendor of the virtual machine that this is; None where none is seen."""
    if "hypervisor" not in (_cpu_field("flags") or "").split():
        return None
    return _read(_SYS / "class/dmi/id/sys_vendor") or "unnamed hypervisor"


def _os_name() -> str:
    release = _try(platform.freedesktop_os_release) or {}
    return release.get("PRETTY_NAME", platform.system())


@functools.cache
def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def _git() -> tuple[str | None, bool | None]:
    """Commit and whether tracked files differ from it; None where this is not a checkout, or git cannot tell.

    It is asked once: a process runs the code that it has loaded.
    """
    if not (CHECKOUT / ".git").exists():  # else git would answer for a repository that happens to lie around it
        return None, None
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}  # a benchmark must not contend for the index
    try:
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    lines = done.stdout.splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    return (commits[0] if commits else None), any(not line.startswith("#") for line in lines)


def cpu_features() -> set[str]:
    """Return the instructions of this machine's CPU, by the names that Linux gives them; an empty set if not known."""
    return {*(_cpu_field("flags") or _cpu_field("Features") or "").split()}  # the second on Arm


def int8_overflows() -> bool:
    """Return True if sums of 8-bit products may overflow on this CPU."""
    return not VNNI & cpu_features()
