"""Local response normalisation over channels (Krizhevsky et al. 2012, section 3.3)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

ALPHA, BETA, K = 1e-4, 0.75, 1.0
"""Caffe's: alpha is that of the sum, which the window divides."""


@dataclass(frozen=True)
class Lrn(Kernel):
    """x / (k + alpha / window * sum of squares of the window's channels)^beta."""

    n: int
    c: int
    h: int
    w: int
    window: int = 5

    OPERATIONS: ClassVar = "window + 4 an element: a square, window - 1 sums, scale, shift, power, division"
    CALL: ClassVar = "torch.nn.functional.local_response_norm"

    def flops(self) -> int:
        return (self.window + 4) * self.n * self.c * self.h * self.w

    def elements(self) -> Elements:
        data = self.n * self.c * self.h * self.w
        return Elements(data, data)

    def node(self) -> Node | None:
        attributes = {"alpha": ALPHA, "beta": BETA, "bias": K, "size": self.window}
        return Node("LRN", (0,), attributes=attributes) if self.window % 2 else None

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import local_response_norm

        data = make.normal(self.n, self.c, self.h, self.w)
        return Bound((data,), lambda: local_response_norm(data, self.window, ALPHA, BETA, K))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        import torch

        part = sample.of(self.n, 100 * self.c * self.h * self.w).to(output.device)
        data = bound.inputs[0][part].double()
        squares = torch.zeros_like(data)
        for offset in range(-(self.window // 2), self.window - self.window // 2):
            low, high = max(0, -offset), min(self.c, self.c - offset)
            if low < high:
                squares[:, low:high] += data[:, low + offset : high + offset] ** 2
        yield output[part], data / (K + ALPHA / self.window * squares) ** BETA
