"""Batch normalisation (Ioffe and Szegedy 2015) as inference has it: with known statistics."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

EPSILON = 1e-5


@dataclass(frozen=True)
class BatchNorm(Kernel):
    """`n` inputs of `c` channels of `h` x `w`."""

    n: int
    c: int
    h: int
    w: int

    OPERATIONS: ClassVar = "2 an element: a channel's scale and shift"
    CALL: ClassVar = "torch.nn.functional.batch_norm"

    def flops(self) -> int:
        return 2 * self.n * self.c * self.h * self.w

    def elements(self) -> Elements:
        data = self.n * self.c * self.h * self.w
        return Elements(data + 4 * self.c, data)

    def node(self) -> Node | None:
        return Node("BatchNormalization", (0, 3, 4, 1, 2), (1, 2, 3, 4), {"epsilon": EPSILON})

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import batch_norm

        data = make.normal(self.n, self.c, self.h, self.w)
        mean, variance = make.normal(self.c), make.uniform(self.c)
        scale, shift = make.normal(self.c), make.normal(self.c)
        return Bound(
            (data, mean, variance, scale, shift),
            lambda: batch_norm(data, mean, variance, scale, shift, training=False, eps=EPSILON),
        )

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        part = sample.of(self.n, 100 * self.c * self.h * self.w).to(output.device)
        data = bound.inputs[0][part].double()
        mean, variance, scale, shift = (each.double()[:, None, None] for each in bound.inputs[1:])
        yield output[part], (data - mean) / (variance + EPSILON).sqrt() * scale + shift
