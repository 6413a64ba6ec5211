"""The device that kernels run on: the precisions it computes in, how large its caches and its free memory are."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from kernels.libraries import TORCH, version
from servemark.errors import OptionError
from servemark.machine import limits
from servemark.machine.environment import cpu_features


class Precision(NamedTuple):
    """Properties of a kernel's elements in a precision."""

    dtype: str
    """torch's name of the inputs' type."""
    read_bytes: int
    """Of an input's element."""
    written_bytes: int
    """Of an output's element: int8 products are int32 sums, fp8 ones are written as bf16."""
    tolerance: float
    """Largest error that is right, as a share of the largest expected value."""
    capability: tuple[int, int]
    """CUDA's compute capability from which its units exist."""


PRECISIONS = {
    "fp32": Precision("float32", 4, 4, 1e-4, (0, 0)),
    "tf32": Precision("float32", 4, 4, 1e-2, (8, 0)),
    "bf16": Precision("bfloat16", 2, 2, 4e-2, (8, 0)),
    "fp16": Precision("float16", 2, 2, 1e-2, (7, 0)),
    "int8": Precision("int8", 1, 4, 0.0, (7, 5)),
    "fp8": Precision("float8_e4m3fn", 1, 2, 4e-2, (8, 9)),
}
"""Tolerances are some ten roundings of the type (2^-8 of bf16): a wrong element is off by a large part of its size."""
FLOATING = ("fp32", "tf32", "bf16", "fp16")
CPU_FEATURES = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"),
    "fp16": ("avx512_fp16", "amx_fp16", "fphp", "asimdhp"),
    "int8": ("avx2", "avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "asimddp"),
}
"""Instructions of which a CPU has one, by the names that the kernel gives them in /proc/cpuinfo."""
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
        if version(TORCH) is None:
            raise OptionError("kernels need PyTorch", fix="pip install 'servemark[torch]'")
        cores = limits.cores().allowed
        if name == "cpu":
            reported, features = cpu_cache_bytes(), frozenset(cpu_features())
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
        return cls(f"cuda:{number}", cores, found.L2_cache_size, capability=capability, board=found.name)

    @property
    def is_gpu(self) -> bool:
        """True if device events can time it."""
        return self.name != "cpu"

    def lacks(self, precision: str) -> str | None:
        """Return the reason why it cannot compute in a precision, None if it can."""
        if self.is_gpu:
            least = PRECISIONS[precision].capability
            if self.capability is not None and self.capability >= least:
                return None
            return f"{precision} needs compute capability {least[0]}.{least[1]}"
        if precision == "fp32":
            return None
        wanted = CPU_FEATURES.get(precision)
        if wanted is None:
            return f"no CPU computes in {precision}"
        return None if self.features.intersection(wanted) else f"{precision} needs a CPU with {' or '.join(wanted)}"

    def available_bytes(self) -> int:
        """Free memory."""
        if not self.is_gpu:
            return limits.memory().available_bytes
        import torch

        return torch.cuda.mem_get_info(self.name)[0]


def cpu_cache_bytes(system: Path = _SYSTEM) -> int | None:
    """The largest cache of the first core, as Linux describes it. None: it describes none, as in some containers."""
    sizes = [size.read_text().strip() for size in system.glob("index*/size") if os.access(size, os.R_OK)]
    known = [int(size[:-1]) * _UNITS[size[-1]] for size in sizes if size[:-1].isdecimal() and size[-1] in _UNITS]
    return max(known, default=None)
