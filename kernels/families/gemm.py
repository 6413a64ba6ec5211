"""Dense matrix products C = op(A) op(B), batched or grouped. Sizes as in DeepBench: column-major, as BLAS.

A column-major matrix is its transpose in PyTorch, so C^T = op(B)^T op(A)^T is what the library is asked for, and BLAS
sees DeepBench's own case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.device import FLOATING
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

if TYPE_CHECKING:
    import torch

FP8_MULTIPLE, INT8_MULTIPLE, INT8_ROWS = 16, 8, 17
"""Multiples and rows that `torch._scaled_mm` and, on a GPU, `torch._int_mm` require."""


@dataclass(frozen=True)
class Gemm(Kernel):
    """[m, k] times [k, n]. `batch` products of one size, or `groups` unequal parts of n, each with an A of its own."""

    m: int
    n: int
    k: int
    a_t: bool = False
    b_t: bool = False
    batch: int = 1
    groups: int = 1

    PRECISIONS: ClassVar = (*FLOATING, "int8", "fp8")
    OPERATIONS: ClassVar = "2 m n k batch"
    CALL: ClassVar = "torch.matmul"

    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    def elements(self) -> Elements:
        matrices = self.m * self.k * self.groups + self.k * self.n
        return Elements(matrices * self.batch, self.m * self.n * self.batch)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        if precision not in {"int8", "fp8"}:
            return None
        if self.batch > 1:
            return f"PyTorch has no batched product in {precision}"
        rows = min(high - low for low, high in self.parts())
        if precision == "fp8":
            if not self.a_t or self.b_t:
                return "PyTorch's product in fp8 wants A transposed, and B not"
            if self.m % FP8_MULTIPLE or self.k % FP8_MULTIPLE:
                return f"PyTorch's product in fp8 wants m and k in multiples of {FP8_MULTIPLE}"
        elif device != "cpu" and (rows < INT8_ROWS or self.m % INT8_MULTIPLE or self.k % INT8_MULTIPLE):
            least = f"n of {INT8_ROWS} at least, m and k in multiples of {INT8_MULTIPLE}"
            return f"PyTorch's product in int8 on a GPU wants {least}"
        return None

    def parts(self) -> list[tuple[int, int]]:
        """Return the bounds of each group's part of n: the n-th is about n times as large as the first."""
        weights = list(accumulate(range(self.groups + 1)))
        return (
            list(pairwise(self.n * weight // weights[-1] for weight in weights)) if self.groups > 1 else [(0, self.n)]
        )

    def node(self) -> Node | None:
        if self.groups > 1 or (self.batch > 1 and (self.a_t or self.b_t)):
            return None
        if self.batch > 1:
            return Node("MatMul", (1, 0))
        return Node("Gemm", (1, 0), attributes={"transA": int(self.b_t), "transB": int(self.a_t)})

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        several = [size for size in (self.batch, self.groups) if size > 1]
        own = [self.batch] if self.batch > 1 else []
        a = make.normal(*several, *((self.m, self.k) if self.a_t else (self.k, self.m)))
        b = make.normal(*own, *((self.k, self.n) if self.b_t else (self.n, self.k)))
        left, right = a.mT if self.a_t else a, b.mT if self.b_t else b
        out = make.empty(*own, self.n, self.m)
        product = _product(make.precision, out)
        if self.groups > 1:
            ranges = [(right[low:high], left[group], out[low:high]) for group, (low, high) in enumerate(self.parts())]

            def grouped() -> torch.Tensor:
                for rows, matrix, into in ranges:
                    product(rows, matrix, into)
                return out

            return Bound((a, b), grouped)
        return Bound((a, b), lambda: product(right, left, out))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        a, b = bound.inputs
        left, right = (a.mT if self.a_t else a).double(), b.mT if self.b_t else b
        if self.groups == 1:
            rows = sample.of(self.n, 2 * self.m * self.k * self.batch).to(output.device)
            yield output[..., rows, :], right[..., rows, :].double() @ left
            return
        for group, (low, high) in enumerate(self.parts()):
            if high > low:
                rows = sample.of(high - low, 2 * self.m * self.k * self.groups).to(output.device) + low
                yield output[rows], right[rows].double() @ left[group]

    def algorithm(self, precision: str, device: str) -> str:
        function = {"int8": "torch._int_mm", "fp8": "torch._scaled_mm"}.get(precision, self.CALL)
        return f"{function} for each group" if self.groups > 1 else function


def _product(precision: str, out: "torch.Tensor") -> "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]":
    """PyTorch's product in a precision, into a tensor of the type and on the device of `out`."""
    import torch

    if precision == "int8":
        return lambda right, left, into: torch._int_mm(right, left, out=into)
    if precision == "fp8":
        one = torch.ones((), device=out.device)  # of fp8's scales; made here, since a call would pay for it
        return lambda right, left, into: torch._scaled_mm(
            right, left, scale_a=one, scale_b=one, out_dtype=into.dtype, out=into
        )
    return lambda right, left, into: torch.matmul(right, left, out=into)
