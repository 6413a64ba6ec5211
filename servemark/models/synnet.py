"""synNet: the first synthetic network that AI Matrix's generator made, a chain of 62 convolutions.

AI Matrix, macro_benchmark/CNN_Tensorflow/nvcnn.py: image classification in six groups of convolutions with BatchNorm
and ReLU, each ended by a maximum over 2 x 2, then 1,000 classes. Kernels and widths are its layer list. They stand for
the layers of the networks that it profiled, and nothing was trained. The method: Wei et al. 2018, "AI Matrix -
Synthetic Benchmarks for DNN". `synnet_3c` is the second one, with branches.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from servemark.models.blocks.classification import classification
from servemark.models.blocks.weights import he
from servemark.workload import Module, Variant

if TYPE_CHECKING:
    from torch import nn

CITATION = "Wei et al. 2018, AI Matrix - Synthetic Benchmarks for DNN (arXiv:1812.00886)"
ORIGIN = "AI Matrix's generated network, from its published layer list. It publishes rates, and no accuracy."
GROUPS = (
    ((5, 42), (3, 40, 48)),
    ((5, 4, 93, 2, 52, 46, 54, 2, 22), (3, 2, 46, 206)),
    ((5, 23), (3, 273, 25, 299, 449, 49, 406, 12, 48, 209, 39, 309)),
    ((5, 192, 90, 88, 663), (3, 23, 139, 91, 580, 310, 188, 55, 252, 25, 49, 862)),
    ((5, 147, 177, 82), (4, 517), (3, 307, 182, 367, 131, 291), (2, 456), (1, 345)),
    ((5, 150, 298), (4, 48, 48), (3, 48, 48), (2, 48, 48), (1, 40, 43)),
)
"""Of each group: a kernel's side, and the widths of the convolutions that have it."""
OFFSET = 2.0
"""Of what goes into a rectifier, in standard deviations. Random norms and rectifiers enlarge any difference 1.2 times a
layer (Yang et al. 2019, "A Mean Field Theory of Batch Normalization", ICLR), rounding too; rectifiers that let nearly
all through do not.
"""
SPREAD = 0.1
"""Of the logits: 62 layers leave little of the difference between pictures, and to enlarge it enlarges rounding."""
AROUND = 0.05
"""Size of a kernel's other weights beside the middle ones: else the border's zeros would drown the picture."""


@dataclass(frozen=True)
class Sizes:
    """Classes and picture side."""

    classes: int = 1000
    side: int = 224


def convolution(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> "nn.Sequential":
    """A convolution that covers all of its input as TensorFlow's SAME: what is odd is padded behind."""
    from torch import nn

    before, after = (kernel - stride) // 2, -(-(kernel - stride) // 2)
    return nn.Sequential(
        nn.ZeroPad2d((before, after, before, after)),
        nn.Conv2d(inputs, outputs, kernel, stride, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-4),
        nn.ReLU(inplace=True),
    )


def chain(inputs: int, group: Iterable[tuple[int, ...]]) -> "tuple[nn.Sequential, int]":
    """Convolutions one after the other, and the width of the last."""
    from torch import nn

    layers = []
    for kernel, *widths in group:
        for outputs in widths:
            layers.append(convolution(inputs, outputs, kernel))
            inputs = outputs
    return nn.Sequential(*layers), inputs


def settle(model: Module) -> None:
    """Draw the weights: a kernel's middle as He et al. have it, little around it, and rectifiers that are open."""
    from torch import nn

    he(model)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.bias, OFFSET)
        elif isinstance(module, nn.Conv2d):
            middle = (module.kernel_size[0] - 1) // 2
            module.weight.mul_(AROUND)
            module.weight[:, :, middle, middle].mul_(module.kernel_size[0] / AROUND)


def network(sizes: Sizes) -> Module:
    """Define synNet: image [B, 3, side, side] -> logits [B, classes]."""
    from torch import nn

    layers: list[nn.Module] = []
    width, side = 3, sizes.side
    for group in GROUPS:
        convolutions, width = chain(width, group)
        layers += [convolutions, nn.MaxPool2d(2)]
        side //= 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * side**2, sizes.classes))


synthetic = partial(classification, citation=CITATION, origin=ORIGIN, slo_ms=60, weights=settle, spread=SPREAD)
"""Describes a network whose many layers let what differs between pictures, and nothing else, through."""

WORKLOAD = synthetic(
    "synnet",
    "synNet",
    full=Variant(Sizes(), parameters=21_619_109, flops=38_217_460_228),
    # no tiny variant: 62 convolutions of any width take 39 s of CPU time to export
    network=network,
)
