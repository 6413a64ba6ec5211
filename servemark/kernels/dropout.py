"""Dropout (Srivastava et al. 2014) as training has it: inference does nothing."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from servemark.kernels.measurement.kernel import Bound, Elements, Kernel, Maker, Sample

if TYPE_CHECKING:
    import torch

    from servemark.kernels.measurement.kernel import Output

DEVIATIONS = 8.0
"""By so many standard deviations may the dropped share lie off: chance does it once in 10^15."""


@dataclass(frozen=True)
class Dropout(Kernel):
    """Drops each of so many elements with a probability of `percent`, and scales those that stay."""

    length: int
    percent: int = 50

    OPERATIONS: ClassVar = "2 an element: a comparison and a product; random numbers count nothing"
    CALL: ClassVar = "torch.nn.functional.dropout"

    def flops(self) -> int:
        return 2 * self.length

    def elements(self) -> Elements:
        return Elements(self.length, self.length)

    def bind(self, make: Maker) -> Bound:
        from torch.nn.functional import dropout

        data = make.normal(self.length)
        return Bound((data,), lambda: dropout(data, self.percent / 100, training=True))

    def expected(self, bound: Bound, output: "Output", sample: Sample) -> "Iterator[tuple[torch.Tensor, torch.Tensor]]":
        """What stayed is scaled, and as much stayed as should: all must be right at once."""
        import torch

        assert isinstance(output, torch.Tensor)
        data, stays = bound.inputs[0].double(), 1 - self.percent / 100
        kept = output != 0
        yield output, torch.where(kept, data / stays, 0.0)
        off = abs(float(kept.double().mean()) - stays)
        allowed = DEVIATIONS * math.sqrt(stays * (1 - stays) / self.length)
        one = torch.ones(1, dtype=torch.float64)
        yield one if off <= allowed else one + 1, one


KERNEL = Dropout
