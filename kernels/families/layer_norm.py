"""Layer normalisation (Ba et al. 2016) over the last dimension, with scale and shift."""

from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

EPSILON = 1e-5


@dataclass(frozen=True)
class LayerNorm(Kernel):
    """`rows` vectors of `width`."""

    rows: int
    width: int

    OPERATIONS: ClassVar = "7 an element: 1 mean, 3 variance, 1 division by its root, 2 scale and shift"
    CALL: ClassVar = "torch.nn.functional.layer_norm"

    def flops(self) -> int:
        return 7 * self.rows * self.width

    def elements(self) -> Elements:
        return Elements(self.rows * self.width + 2 * self.width, self.rows * self.width)

    def node(self) -> Node | None:
        return Node("LayerNormalization", (0, 1, 2), (1, 2), {"axis": -1, "epsilon": EPSILON})

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import layer_norm

        data, scale, shift = make.normal(self.rows, self.width), make.normal(self.width), make.normal(self.width)
        return Bound((data, scale, shift), lambda: layer_norm(data, (self.width,), scale, shift, EPSILON))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        part = sample.of(self.rows, 100 * self.width).to(output.device)
        data, scale, shift = (each.double() for each in (bound.inputs[0][part], *bound.inputs[1:]))
        centred = data - data.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        yield output[part], centred / (variance + EPSILON).sqrt() * scale + shift
