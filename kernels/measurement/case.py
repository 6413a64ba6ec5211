"""One case: its sizes, which ceilings bound it, which device can run it, and how much memory it needs."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from kernels.libraries import TORCH, library
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import Kernel, make_kernel
from servemark.results.schema.kernels import Bound as Ceiled
from servemark.results.schema.kernels import Cache, Ceiling, KernelCase, Published, Status

CACHES = 2
"""Last-level caches that cold tensors fill: one less, and the oldest might still be there."""
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """One kernel of a suite, in one precision."""

    family: str
    kernel: Kernel
    precision: str = "fp32"
    source: str = ""
    count: int = 1
    """Calls of it in one inference."""
    library: str = TORCH
    published: tuple[Published, ...] = ()
    """Figures that others have measured."""

    @classmethod
    def of(cls, family: str, source: str = "", **sizes: object) -> Self:
        """A case by its family and sizes. Raises OptionError on an unknown family."""
        return cls(family, make_kernel(family, sizes), source=source)

    def __str__(self) -> str:
        words = f"{self.family} {self.kernel.label()} {self.precision}"
        return words if self.library == TORCH else f"{words} {self.library}"

    def floor_s(self, ceiling: Ceiling, cache: Cache = "hot") -> dict[Ceiled, float]:
        """The least time (s) that each ceiling allows; a hot cache's bandwidth is that of the bytes of one call."""
        traffic = self.kernel.traffic(self.precision)
        level, gbps = bandwidth(ceiling, traffic if cache == "hot" else math.inf)
        return {
            "compute": self.kernel.flops() / (ceiling["tflops"] * 1e12),
            level: traffic / (gbps * 1e9),
            "latency": ceiling["call_us"] / 1e6,
        }


PARTLY_HELD = 2
"""Caches that a set may fill and yet lie in one in part. Which part hangs on its pages and on the neighbours: the same
copy of 64 MiB beside a cache of 32 MiB moved 38 and 5 GB/s. So the set of its own size is no roof for it."""


def bandwidth(ceiling: Ceiling, working_set: float) -> tuple[Ceiled, float]:
    """Place a working set (bytes) at its level, with the bandwidth (GB/s) of the largest measured one of half its size.

    It is the cache's where it lies nearer to the highest of all than to the memory's, as ratios.
    """
    bandwidths = ceiling["bandwidths"]
    within = [each["gbps"] for each in bandwidths if each["mib"] * MIB * PARTLY_HELD <= working_set]
    highest, memory = bandwidths[0]["gbps"], bandwidths[-1]["gbps"]
    gbps = within[-1] if within else highest
    return ("cache" if gbps > math.sqrt(highest * memory) else "memory"), gbps


def once(cases: Iterable[Case]) -> list[Case]:
    """Equal kernels once, in the order of the first, with the sources of all: "DeepBench, Resnet; Vision"."""
    found: dict[Kernel, Case] = {}
    for case in cases:
        known = found.setdefault(case.kernel, case)
        if case.source not in known.source:
            more = case.source.rpartition(", ")[2]
            found[case.kernel] = replace(known, source=f"{known.source}; {more}")
    return list(found.values())


@dataclass(frozen=True)
class Method:
    """Method of measuring cases."""

    device: Device
    cache: Cache = "hot"
    limit_s: float = 60.0
    budget_s: float = 1.0


class Unmeasured(RuntimeError):  # noqa: N818 - a skipped case is not an error
    """A case ends without a time. It comes from a process of its own as it is."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(status, reason)  # both, since it comes from another process
        self.status = status

    def __str__(self) -> str:
        return str(self.args[1])


def blank(case: Case, device: Device, status: Status, reason: str | None) -> KernelCase:
    """A case of which only the counts are known."""
    kernel, traffic = case.kernel, case.kernel.traffic(case.precision)
    node = kernel.node() if case.library != TORCH else None
    sizes = {name: list(size) if isinstance(size, tuple) else size for name, size in kernel.sizes().items()}
    return {
        "family": case.family,
        "label": kernel.label(),
        "sizes": sizes,
        "precision": case.precision,
        "library": case.library,
        "source": case.source,
        "count": case.count,
        "status": status,
        "flops": kernel.flops(),
        "bytes": traffic,
        "intensity": kernel.flops() / traffic,
        "algorithm": f"ONNX's {node.operator}" if node else kernel.algorithm(case.precision, device.name),
        "tolerance": PRECISIONS[case.precision].tolerance,
        "published": list(case.published),
        "figures": {},
        "error": None,
        "ms": None,
        "tflops": None,
        "gbps": None,
        "compute_share": None,
        "bandwidth_share": None,
        "bound": None,
        "bound_share": None,
        "joules": None,
        "clock_mhz": None,
        "throttled": None,
        "probe": None,
        "reason": reason,
    }


def refusal(case: Case, device: Device) -> str | None:
    """Return the reason why a device, or a library, cannot run a case at all, None if it can."""
    if case.library != TORCH:
        node = case.kernel.node()
        if node is None:
            return f"{case.library}: {case.family} of these sizes is not a single node of ONNX"
        if case.precision != "fp32" or device.is_gpu:
            return f"{case.library} computes in fp32 on the CPU here"
        if lack := library(case.library).lacks(node):
            return lack
    if case.precision not in case.kernel.PRECISIONS:
        return f"{case.family} has no {case.precision}"
    return device.lacks(case.precision) or case.kernel.refusal(case.precision, device.name, device.cores)


def needed_bytes(case: Case, method: Method) -> int:
    """Memory for the tensors, their copies, and as float64 for the check."""
    held, traffic = case.kernel.held_bytes(case.precision), case.kernel.traffic(case.precision)
    return held * copies(traffic, method) + traffic * 2 * 8 // PRECISIONS[case.precision].read_bytes


def copies(traffic: int, method: Method) -> int:
    """Return the number of sets of tensors: one, or as many as fill the cache."""
    return 1 if method.cache == "hot" else math.ceil(CACHES * method.device.cache_bytes / traffic) + 1


def cases_in(precisions: Sequence[str], cases: Sequence[Case], names: Sequence[str] = (TORCH,)) -> list[Case]:
    """Each case in each precision, by each library: those stand side by side."""
    every = itertools.product(precisions, cases, names)
    return [replace(case, precision=precision, library=name) for precision, case, name in every]
