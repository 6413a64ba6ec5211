"""The parts of the ceilings: a large product, copies and reads of a working set, a call that computes almost nothing.

Each is the rate of the fastest sample, as STREAM's is, while a case is judged by its median.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.measurement.case import MIB, Case, Method, Unmeasured
from kernels.measurement.device import PRECISIONS, Device
from kernels.measurement.kernel import Bound, TensorFactory
from kernels.measurement.measure import error_of, fastest_s, first_call_s, prepared_for, timed

if TYPE_CHECKING:
    import torch

PRODUCT = {"cpu": 2048, "gpu": 8192}
"""Side of the square matrices."""
REDUCED = 2
"""Divisor of the side on a CPU in other precisions than fp32, which PyTorch may compute in a plain loop."""
OPERATIONS = {"copy": 2, "triad": 3, "sum": 1}
"""Operations that move data -> tensors that each touches. A sum only reads, as a product with a vector mostly does."""
CHECKED_BYTES = 1 << 20
"""Of working sets up to this size the answers are checked too: the calls of larger ones are the same."""
SMALLEST = 16
"""Elements of the call that computes almost nothing."""
PART_S, PRODUCT_S = 0.1, 0.5
"""Time for each operation of a working set, and for each product (s)."""
FILL_S = 3.0
"""Longest time to fill a working set (s). Larger ones take too long to measure."""
BLOCK = 1 << 15
"""Random numbers, 128 KiB of them, that come again and again in a working set."""


class Part(NamedTuple):
    """A rate, what reached it, and the size of a working set (bytes)."""

    value: float
    of: str
    size_bytes: int = 0


def size_words(size_bytes: int) -> str:
    """A size in words: "512 MiB", "128 KiB"."""
    return f"{size_bytes / MIB:,.0f} MiB" if size_bytes >= MIB else f"{size_bytes / 1024:,.0f} KiB"


def products(precision: str, device: Device) -> list[Case]:
    """Return the fastest products of a library: plain, A transposed, and on a CPU a direct convolution (oneDNN's)."""
    side = PRODUCT["gpu"] if device.is_gpu else PRODUCT["cpu"] // (1 if precision == "fp32" else REDUCED)
    cases = [Case.of("gemm", m=side, n=side, k=side, a_t=True)]
    if precision != "fp8":
        cases.append(Case.of("gemm", m=side, n=side, k=side))
    if not device.is_gpu and precision != "int8":
        sizes: dict[str, Any] = {"size": (28, 28), "filter": (3, 3), "padding": (1, 1)}
        channels = max(side // 8, 1)
        cases.append(Case.of("convolution", n=4, c=channels, k=channels, **sizes))
    return [replace(case, precision=precision) for case in cases]


def product_tflops(case: Case, method: Method) -> Part:
    """Measure the rate of a large product (10^12/s). Raises Unmeasured."""
    seconds = fastest_s(case, _warm(method, PRODUCT_S))
    return Part(case.kernel.flops() / seconds / 1e12, f"{case.family} {case.kernel.label()}")


def call_us(method: Method) -> Part:
    """Measure what a call takes that computes almost nothing (us). Raises Unmeasured."""
    cases = [
        Case.of("memory", operation="scale", length=SMALLEST),
        Case.of("memory", operation="copy", length=SMALLEST),
        Case.of("activation", function="relu", length=SMALLEST),
    ]
    found = [(fastest_s(case, _warm(method, PART_S)), str(case)) for case in cases]
    seconds, of = min(found)
    return Part(seconds * 1e6, of)


def bandwidth_gbps(
    sizes: Sequence[int], method: Method, fill_s: float = FILL_S, clock: Callable[[], float] = time.perf_counter
) -> Part:
    """Measure the bandwidth (10^9/s) of the largest of these working sets that is filled in time. Raises Unmeasured."""
    with prepared_for(Case.of("memory", operation="sum", length=1)):
        data = filled(sizes, method.device, fill_s, clock)
        size_bytes = data.numel() * data.element_size()
        cases = [
            Case.of("memory", operation=operation, length=data.numel() // tensors)
            for operation, tensors in OPERATIONS.items()
        ]
        found = [_gbps(case, data, _warm(method, PART_S)) for case in cases]
    gbps, of = max(found)
    return Part(gbps, of, size_bytes)


def filled(sizes: Sequence[int], device: Device, fill_s: float, clock: Callable[[], float]) -> "torch.Tensor":
    """Make the largest working set that is filled within `fill_s`; the smallest of `sizes` (ascending) in any case.

    Its numbers are random. A first touch of memory takes longer than any call, so this bounds the calls' time too.
    """
    import torch

    block = TensorFactory("fp32", device.name).uniform(BLOCK)
    whole = torch.empty(max(sizes) // 4, device=device.name)
    begun, done = clock(), 0
    for size in sizes:
        count = size // 4
        if done and (clock() - begun) * count / done > fill_s:
            break
        rows = whole[done:count]
        even = rows.numel() // BLOCK * BLOCK
        rows[:even].view(-1, BLOCK).copy_(block.expand(even // BLOCK, BLOCK))
        rows[even:].copy_(block[: rows.numel() - even])
        if device.is_gpu:
            torch.cuda.synchronize(device.name)
        done = count
    return whole[:done]


class _Slices(TensorFactory):
    """Makes tensors of one that is filled already, one after the other."""

    def __init__(self, data: "torch.Tensor", device: str) -> None:
        super().__init__("fp32", device)
        self._data, self._taken = data, 0

    def normal(self, *shape: int) -> "torch.Tensor":
        [length] = shape
        self._taken += length
        return self._data[self._taken - length : self._taken]

    def uniform(self, *shape: int, low: float = 0.5) -> "torch.Tensor":
        return self.normal(*shape)

    def empty(self, *shape: int) -> "torch.Tensor":
        return self.normal(*shape)


def _gbps(case: Case, data: "torch.Tensor", method: Method) -> tuple[float, str]:
    bound: Bound = case.kernel.bind(_Slices(data, method.device.name))
    first_s = first_call_s(bound.call, method.device)
    if data.numel() * data.element_size() <= CHECKED_BYTES:
        error = error_of(case, bound)
        if not error <= PRECISIONS["fp32"].tolerance:
            raise Unmeasured("failed", f"{case}: wrong: off by {error:.2g} of the largest value that float64 expects")
    seconds = min(timed(bound.call, first_s, method).seconds)
    return case.kernel.traffic("fp32") / seconds / 1e9, f"{case.family} {case.kernel.label()}"


def _warm(method: Method, budget_s: float) -> Method:
    """With a hot cache, for as long as it takes: the caller has a limit."""
    return Method(method.device, limit_s=float("inf"), budget_s=budget_s)
