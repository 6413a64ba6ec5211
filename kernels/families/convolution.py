"""Convolutions of one to three dimensions, in three directions. Depthwise: groups = c.

DeepBench's rule for operations (2 N K C R S P Q) holds for all three directions, whatever algorithm the library takes:
Winograd's does less, so its rate may lie above the device's peak.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernels.libraries import Attribute, Node
from kernels.measurement.kernel import Bound, Elements, Kernel, Pairs, Sample, TensorFactory

if TYPE_CHECKING:
    import torch

Direction = Literal["forward", "backward_data", "backward_weights"]
_WANTED = {"backward_data": [True, False, False], "backward_weights": [False, True, False]}


@dataclass(frozen=True)
class Convolution(Kernel):
    """`n` inputs of `c` channels to `k` channels. Tuples are in PyTorch's order: height before width.

    NCHW and NHWC stand for channels first and last, whatever the number of dimensions.
    """

    n: int
    c: int
    k: int
    size: tuple[int, ...]
    filter: tuple[int, ...]
    padding: tuple[int, ...] = (0, 0)
    stride: tuple[int, ...] = (1, 1)
    groups: int = 1
    dilation: tuple[int, ...] = ()
    """Nothing: 1 in each dimension."""
    direction: Direction = "forward"
    layout: Literal["NCHW", "NHWC"] = "NCHW"

    OPERATIONS: ClassVar = "2 n k c/groups filter output, in each direction"
    CALL: ClassVar = "aten::convolution"

    def output_size(self) -> tuple[int, ...]:
        """Height and width (as many as there are dimensions) of what comes out."""
        sides = zip(self.size, self.filter, self.padding, self.stride, self.steps(), strict=True)
        return tuple(
            (size + 2 * padding - step * (filter_ - 1) - 1) // stride + 1
            for size, filter_, padding, stride, step in sides
        )

    def steps(self) -> tuple[int, ...]:
        """From one element under the filter to the next, in each dimension."""
        return self.dilation or (1,) * len(self.size)

    def flops(self) -> int:
        each = self.c // self.groups * prod(self.filter)
        return 2 * self.n * self.k * each * prod(self.output_size())

    def elements(self) -> Elements:
        data = self.n * self.c * prod(self.size)
        weights = self.k * (self.c // self.groups) * prod(self.filter)
        answer = self.n * self.k * prod(self.output_size())
        written = {"forward": answer, "backward_data": data, "backward_weights": weights}[self.direction]
        return Elements(data + weights + answer - written, written)

    def refusal(self, precision: str, device: str, cores: int) -> str | None:
        if self.layout == "NHWC" and len(self.size) == 1:
            return "PyTorch has no channels-last layout of one dimension"
        return None

    def algorithm(self, precision: str, device: str) -> str:
        library = "cuDNN" if device != "cpu" else "oneDNN or PyTorch's own"
        return f"{self.CALL}{'' if self.direction == 'forward' else '_backward'} ({library}, its choice)"

    def node(self) -> Node | None:
        if self.direction != "forward" or self.layout != "NCHW":
            return None
        attributes: dict[str, Attribute] = {
            "kernel_shape": self.filter,
            "strides": self.stride,
            "pads": self.padding * 2,
            "dilations": self.steps(),
            "group": self.groups,
        }
        return Node("Conv", (0, 1), constants=(1,), attributes=attributes)

    def bind(self, make: TensorFactory) -> Bound:
        import torch

        data = self._laid_out(make.normal(self.n, self.c, *self.size))
        weights = self._laid_out(make.normal(self.k, self.c // self.groups, *self.filter))
        # What Python makes of the sizes is made here: within the call a small convolution would pay for it.
        arguments = self._arguments()
        if self.direction == "forward":
            convolve = torch.convolution
            return Bound((data, weights), lambda: convolve(data, weights, None, *arguments))
        answer = self._laid_out(make.normal(self.n, self.k, *self.output_size()))
        wanted, backward = _WANTED[self.direction], torch.ops.aten.convolution_backward.default
        which = wanted.index(True)
        return Bound((data, weights, answer), lambda: backward(answer, data, weights, None, *arguments, wanted)[which])

    def expected(self, bound: Bound, output: Any, sample: Sample) -> Pairs:
        data, weights = bound.inputs[:2]
        if self.direction == "backward_weights":
            answer = bound.inputs[2]
            whole = self.k if self.groups == 1 else 1  # a group's channels belong together: all are checked
            part = sample.of(whole, self.flops() / whole).to(output.device) if self.groups == 1 else slice(None)
            yield output[part], self._backward(data.double(), weights[part].double(), answer[:, part].double())
            return
        images = sample.of(self.n, self.flops() / self.n).to(output.device)
        if self.direction == "forward":
            yield output[images], self._forward(data[images].double(), weights.double())
        else:
            answer = bound.inputs[2]
            yield output[images], self._backward(data[images].double(), weights.double(), answer[images].double())

    def _arguments(self) -> tuple[Any, ...]:
        """Stride, padding, dilation, whether transposed, its output's padding, groups."""
        none = [0] * len(self.size)
        return [*self.stride], [*self.padding], [*self.steps()], False, none, self.groups

    def _forward(self, data: "torch.Tensor", weights: "torch.Tensor") -> "torch.Tensor":
        import torch

        return torch.convolution(data, weights, None, *self._arguments())

    def _backward(self, data: "torch.Tensor", weights: "torch.Tensor", answer: "torch.Tensor") -> "torch.Tensor":
        import torch

        wanted = _WANTED[self.direction]
        gradients = torch.ops.aten.convolution_backward(answer, data, weights, None, *self._arguments(), wanted)
        gradient: torch.Tensor = gradients[wanted.index(True)]
        return gradient

    def _laid_out(self, tensor: "torch.Tensor") -> "torch.Tensor":
        import torch

        if self.layout == "NCHW":
            return tensor
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return tensor.to(memory_format=formats[tensor.ndim])
