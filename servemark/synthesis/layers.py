"""Layers of a workload: its convolutions and fully connected layers, as PyTorch calls them for one sample."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernels.families.convolution import Convolution
from kernels.families.fully_connected import FullyConnected
from kernels.measurement.device import Device
from kernels.tracing.workload import trace_apart

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Layer:
    """A square convolution of two dimensions; sides are that of the filter and that of its input."""

    kernel: int
    stride: int
    inputs: int
    outputs: int
    side: int
    groups: int = 1

    @property
    def side_after(self) -> int:
        """Side of its output, padded as TensorFlow's SAME."""
        return -(-self.side // self.stride)

    @property
    def parameters(self) -> int:
        """Number of its weights."""
        return self.kernel**2 * self.inputs // self.groups * self.outputs

    @property
    def flops(self) -> int:
        """Operations of one sample, a multiply-add as 2."""
        return 2 * self.parameters * self.side_after**2

    @property
    def bytes(self) -> int:
        """Bytes of its input, weights and output in FP32."""
        moved = self.inputs * self.side**2 + self.parameters + self.outputs * self.side_after**2
        return FLOAT_BYTES * moved


@dataclass(frozen=True)
class Layers:
    """Layers of one workload in the order of their calls."""

    workload: str
    convolutions: tuple[Layer, ...]
    connected: tuple[tuple[int, int], ...]
    """Fully connected layers: inputs and outputs."""
    left_out: float
    """Share of its operations that lie in other layers."""


def layers_of(name: str) -> Layers:
    """Trace a workload once, in a process of its own. Raises OptionError, ServerError."""
    trace = trace_apart(name, 1, Device.named("cpu"), timed=False)
    convolutions: list[Layer] = []
    connected: list[tuple[int, int]] = []
    covered = whole = 0
    for case in trace.cases:
        kernel: Any = case.kernel
        whole += case.count * kernel.flops()
        layer = _layer(kernel)
        if layer is not None:
            convolutions += [layer] * case.count
        elif isinstance(kernel, FullyConnected) and kernel.batch == 1:
            connected += [(kernel.inputs, kernel.outputs)] * case.count
        else:
            continue
        covered += case.count * kernel.flops()
    return Layers(name, tuple(convolutions), tuple(connected), 1 - covered / max(whole, 1))


def _layer(kernel: Any) -> Layer | None:
    """Describe a convolution by the geometric means of its sides; None for any other kernel."""
    if not isinstance(kernel, Convolution) or len(kernel.size) != 2 or kernel.direction != "forward":
        return None
    across = [_mean(each) for each in (kernel.filter, kernel.stride, kernel.size)]
    return Layer(across[0], across[1], kernel.c, kernel.k, across[2], kernel.groups)


def _mean(sides: Sequence[int]) -> int:
    return max(round(math.sqrt(sides[0] * sides[1])), 1)
