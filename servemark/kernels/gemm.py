"""Dense matrix products C = op(A) op(B), batched or grouped. Sizes as in DeepBench: column-major, as BLAS.

A column-major matrix is its transpose in PyTorch, so C^T = op(B)^T op(A)^T is what the library is asked for, and BLAS
sees DeepBench's own case.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar

from servemark.kernels.libraries import Node
from servemark.kernels.measurement.kernel import Bound, Elements, Kernel, Maker, Sample
from servemark.kernels.measurement.precisions import FLOATING

if TYPE_CHECKING:
    import torch

    from servemark.kernels.measurement.kernel import Output


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
        return "PyTorch's product in fp8 wants A transposed" if precision == "fp8" and not self.a_t else None

    def parts(self) -> list[tuple[int, int]]:
        """Where each group's part of n begins and ends: the n-th is about n times as large as the first."""
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

    def bind(self, make: Maker) -> Bound:
        import torch

        several = [size for size in (self.batch, self.groups) if size > 1]
        own = [self.batch] if self.batch > 1 else []
        a = make.normal(*several, *((self.m, self.k) if self.a_t else (self.k, self.m)))
        b = make.normal(*own, *((self.k, self.n) if self.b_t else (self.n, self.k)))
        left, right = a.mT if self.a_t else a, b.mT if self.b_t else b
        out = make.empty(*own, self.n, self.m)
        if self.groups > 1:
            ranges = [(right[low:high], left[group], out[low:high]) for group, (low, high) in enumerate(self.parts())]

            def grouped() -> torch.Tensor:
                for rows, matrix, into in ranges:
                    _product(rows, matrix, into, make.precision)
                return out

            return Bound((a, b), grouped)
        return Bound((a, b), lambda: _product(right, left, out, make.precision))

    def expected(self, bound: Bound, output: "Output", sample: Sample) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
        from torch import Tensor

        assert isinstance(output, Tensor)
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


def _product(right: "torch.Tensor", left: "torch.Tensor", out: "torch.Tensor", precision: str) -> "torch.Tensor":
    import torch

    if precision == "int8":
        return torch._int_mm(right, left, out=out)
    if precision == "fp8":
        one = torch.ones((), device=out.device)
        return torch._scaled_mm(right, left, scale_a=one, scale_b=one, out_dtype=out.dtype, out=out)
    return torch.matmul(right, left, out=out)


KERNEL = Gemm
