"""Softmax over the last dimension."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory


@dataclass(frozen=True)
class Softmax(Kernel):
    """`rows` distributions over `width` classes."""

    rows: int
    width: int

    OPERATIONS: ClassVar = "5 an element: maximum, difference, exponential, sum, division"
    CALL: ClassVar = "torch.softmax"

    def flops(self) -> int:
        return 5 * self.rows * self.width

    def elements(self) -> Elements:
        return Elements(self.rows * self.width, self.rows * self.width)

    def node(self) -> Node | None:
        return Node("Softmax", (0,), attributes={"axis": -1})

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        data, out = make.normal(self.rows, self.width), make.empty(self.rows, self.width)
        return Bound((data,), lambda: torch.softmax(data, -1, out=out))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        import torch

        part = sample.of(self.rows, 100 * self.width).to(output.device)
        powers = torch.exp(bound.inputs[0][part].double())
        yield output[part], powers / powers.sum(-1, keepdim=True)
