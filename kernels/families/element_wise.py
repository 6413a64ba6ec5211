"""Element-wise operations of two tensors, as of a residual connection."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory


@dataclass(frozen=True)
class ElementWise(Kernel):
    """c = a + b, or another operation, over `length` elements."""

    operation: Literal["add", "sub", "mul", "div", "maximum"]
    length: int

    OPERATIONS: ClassVar = "1 an element"
    CALL: ClassVar = "torch.add, sub, mul, div, maximum"

    def flops(self) -> int:
        return self.length

    def elements(self) -> Elements:
        return Elements(2 * self.length, self.length)

    def node(self) -> Node | None:
        return Node({"maximum": "Max"}.get(self.operation, self.operation.capitalize()), (0, 1))

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        a, b, c = make.normal(self.length), make.uniform(self.length), make.empty(self.length)
        function = getattr(torch, self.operation)
        return Bound((a, b), lambda: function(a, b, out=c))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        import torch

        part = sample.of(self.length, 10).to(output.device)
        a, b = (each[part].double() for each in bound.inputs)
        yield output[part], getattr(torch, self.operation)(a, b)
