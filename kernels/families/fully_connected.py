"""Fully connected layers, with bias."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory


@dataclass(frozen=True)
class FullyConnected(Kernel):
    """`batch` vectors of `inputs` to vectors of `outputs`."""

    batch: int
    inputs: int
    outputs: int

    OPERATIONS: ClassVar = "2 batch inputs outputs, and batch outputs for the bias"
    CALL: ClassVar = "torch.addmm"

    def flops(self) -> int:
        return (2 * self.inputs + 1) * self.batch * self.outputs

    def elements(self) -> Elements:
        read = self.batch * self.inputs + self.inputs * self.outputs + self.outputs
        return Elements(read, self.batch * self.outputs)

    def node(self) -> Node | None:
        return Node("Gemm", (0, 1, 2), constants=(1, 2), attributes={"transB": 1})

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        data, weights = make.normal(self.batch, self.inputs), make.normal(self.outputs, self.inputs)
        bias, out = make.normal(self.outputs), make.empty(self.batch, self.outputs)
        return Bound((data, weights, bias), lambda: torch.addmm(bias, data, weights.mT, out=out))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        part = sample.of(self.batch, 2 * self.inputs * self.outputs).to(output.device)
        data, weights, bias = (each.double() for each in (bound.inputs[0][part], *bound.inputs[1:]))
        yield output[part], data @ weights.mT + bias
