"""Dropout (Srivastava et al. 2014) as training has it: inference does nothing."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

DEVIATIONS = 8.0
"""Standard deviations that the dropped share may lie off: chance exceeds them once in 10^15 times."""


@dataclass(frozen=True)
class Dropout(Kernel):
    """Drop each of `length` elements with a probability of `percent`, and scale those that stay."""

    length: int
    percent: int = 50

    OPERATIONS: ClassVar = "2 an element: a comparison and a product; random numbers count nothing"
    CALL: ClassVar = "torch.nn.functional.dropout"

    def flops(self) -> int:
        return 2 * self.length

    def elements(self) -> Elements:
        return Elements(self.length, self.length)

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import dropout

        data = make.normal(self.length)
        return Bound((data,), lambda: dropout(data, self.percent / 100, training=True))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        """Kept elements are scaled, and the right share of them is kept: both must hold at once."""
        import torch

        data, stays = bound.inputs[0].double(), 1 - self.percent / 100
        kept = output != 0
        yield output, torch.where(kept, data / stays, 0.0)
        off = abs(float(kept.double().mean()) - stays)
        allowed = DEVIATIONS * math.sqrt(stays * (1 - stays) / self.length)
        one = torch.ones(1, dtype=torch.float64)
        yield one if off <= allowed else one + 1, one
