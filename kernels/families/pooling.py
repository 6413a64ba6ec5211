"""Pooling over windows, and over the whole input."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kernels.libraries import Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory


@dataclass(frozen=True)
class Pooling(Kernel):
    """The largest, or the mean, of each square window. An average counts the padding's zeros, as Caffe's does."""

    kind: Literal["max", "average"]
    n: int
    c: int
    h: int
    w: int
    window: int
    stride: int
    padding: int = 0

    OPERATIONS: ClassVar = "an output: max window^2 - 1 comparisons, average window^2 - 1 sums and a division"
    CALL: ClassVar = "torch.nn.functional.max_pool2d, avg_pool2d"

    def output_size(self) -> tuple[int, int]:
        """Height and width of what comes out."""
        height, width = ((side + 2 * self.padding - self.window) // self.stride + 1 for side in (self.h, self.w))
        return height, width

    def flops(self) -> int:
        each = self.window**2 - (1 if self.kind == "max" else 0)
        return each * self.elements().written

    def elements(self) -> Elements:
        height, width = self.output_size()
        return Elements(self.n * self.c * self.h * self.w, self.n * self.c * height * width)

    def node(self) -> Node | None:
        attributes = {
            "kernel_shape": (self.window, self.window),
            "strides": (self.stride, self.stride),
            "pads": (self.padding,) * 4,
        }
        if self.kind == "max":
            return Node("MaxPool", (0,), attributes=attributes)
        return Node("AveragePool", (0,), attributes={**attributes, "count_include_pad": 1})

    def bind(self, make: TensorFactory) -> Bound:
        from torch.nn.functional import avg_pool2d, max_pool2d

        data = make.normal(self.n, self.c, self.h, self.w)
        pool = max_pool2d if self.kind == "max" else avg_pool2d
        return Bound((data,), lambda: pool(data, self.window, self.stride, self.padding))

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        import torch

        height, width = self.output_size()
        part = sample.of(self.n, 100 * self.c * height * width * self.window**2).to(output.device)
        edge = float("-inf") if self.kind == "max" else 0.0
        data = torch.nn.functional.pad(bound.inputs[0][part].double(), [self.padding] * 4, value=edge)
        windows = data.unfold(2, self.window, self.stride).unfold(3, self.window, self.stride)
        right = windows.amax((-2, -1)) if self.kind == "max" else windows.mean((-2, -1))
        yield output[part], right[:, :, :height, :width]
