"""Activations. Operations are counted with each exponential, tanh, erf and division as one."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

FLOPS = {"relu": 1, "sigmoid": 4, "tanh": 1, "gelu": 5}
"""max(x, 0); 1 / (1 + exp(-x)); tanh(x); 0.5 x (1 + erf(x / sqrt 2))."""


@dataclass(frozen=True)
class Activation(Kernel):
    """Apply a function to each of `length` elements."""

    function: Literal["relu", "sigmoid", "tanh", "gelu"]
    length: int

    OPERATIONS: ClassVar = "an element: relu 1, sigmoid 4, tanh 1, gelu 5"
    CALL: ClassVar = "torch.clamp_min, sigmoid, tanh, torch.nn.functional.gelu"

    def flops(self) -> int:
        return FLOPS[self.function] * self.length

    def elements(self) -> Elements:
        return Elements(self.length, self.length)

    def node(self) -> Node | None:
        return Node(self.function.capitalize(), (0,))

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        data, out = make.normal(self.length), make.empty(self.length)
        calls = {
            "relu": lambda: torch.clamp_min(data, 0, out=out),
            "sigmoid": lambda: torch.sigmoid(data, out=out),
            "tanh": lambda: torch.tanh(data, out=out),
            "gelu": lambda: torch.ops.aten.gelu.out(data, out=out),
        }
        return Bound((data,), calls[self.function])

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        import torch

        part = sample.of(self.length, 100).to(output.device)
        data = bound.inputs[0][part].double()
        right = {
            "relu": lambda: torch.where(data > 0, data, 0.0),
            "sigmoid": lambda: 1 / (1 + torch.exp(-data)),
            "tanh": lambda: torch.tanh(data),
            "gelu": lambda: 0.5 * data * (1 + torch.erf(data / math.sqrt(2))),
        }
        yield output[part], right[self.function]()
