"""The device that kernels run on: what it can compute in, how large its caches and its free memory are."""

import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Self

from kernels.measurement import precisions
from servemark.errors import OptionError
from servemark.machine import limits
from servemark.machine.environment import cpu_features

_SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
USUAL_CACHE_BYTES = 32 << 20
"""Assumed cache where the system does not report one."""


@dataclass(frozen=True)
class Device:
    """A device by its name: `cpu`, or `cuda:N`."""

    name: str
    cores: int
    """Threads that a CPU's kernels take."""
    cache_bytes: int
    """Its last-level cache, as the system reports it, or a usual one."""
    features: frozenset[str] = frozenset()
    """A CPU's instructions."""
    capability: tuple[int, int] | None = None
    """A GPU's compute capability."""
    board: str | None = None
    """A GPU's name, as its driver says it."""
    cache_reported: bool = True
    """True if the system reports its cache at all."""

    @classmethod
    def named(cls, name: str) -> Self:
        """Find a device. Raises OptionError where it is not there, or PyTorch is not."""
        check_installed()
        if name == "cpu":
            cores, reported = limits.cores().allowed, cpu_cache_bytes()
            features = frozenset(cpu_features())
            return cls(name, cores, reported or USUAL_CACHE_BYTES, features, cache_reported=reported is not None)
        number = "0" if name == "cuda" else name.removeprefix("cuda:")
        if not number.isdecimal():
            raise OptionError(f"--device {name!r} is unknown", fix="use cpu or cuda:N, such as cuda:0")
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(number) >= count:
            raise OptionError(f"--device {name}: PyTorch sees {count} GPUs", fix="use --device cpu")
        found = torch.cuda.get_device_properties(int(number))
        capability = (found.major, found.minor)
        cores = limits.cores().allowed
        return cls(f"cuda:{number}", cores, found.L2_cache_size, capability=capability, board=found.name)

    @property
    def is_gpu(self) -> bool:
        """True if device events can time it."""
        return self.name != "cpu"

    def lacks(self, precision: str) -> str | None:
        """Return the reason why it cannot compute in a precision, None if it can."""
        return precisions.refusal(precision, self.name, set(self.features), self.capability)

    def available_bytes(self) -> int:
        """Free memory."""
        if not self.is_gpu:
            return limits.memory().available_bytes
        import torch

        return torch.cuda.mem_get_info(self.name)[0]


def check_installed() -> None:
    """Raise OptionError where PyTorch is not installed."""
    try:
        metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        raise OptionError("kernels need PyTorch", fix="pip install 'servemark[torch]'") from error


def cpu_cache_bytes(system: Path = _SYSTEM) -> int | None:
    """The largest cache of the first core, as Linux describes it. None: it describes none, as in some containers."""
    sizes = [size.read_text().strip() for size in system.glob("index*/size") if os.access(size, os.R_OK)]
    known = [int(size[:-1]) * _UNITS[size[-1]] for size in sizes if size[:-1].isdecimal() and size[-1] in _UNITS]
    return max(known, default=None)
