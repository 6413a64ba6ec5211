"""ResNet-20: classification of small pictures (HPC workload analysis).

He et al. 2016, "Deep Residual Learning for Image Recognition" (CVPR), section 4.2 with n = 3: three stages of 16, 32
and 64 channels, and shortcuts without parameters, which leave out every other pixel and fill up with zeros (option A).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from servemark.datasets import cifar10
from servemark.models.blocks import resnet
from servemark.models.blocks.classification import seeded_classifier
from servemark.models.synthesis.images import picture
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, Workload, define

MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)[:, None, None]
STD = np.array([0.2470, 0.2435, 0.2616], np.float32)[:, None, None]
"""Of the training pictures' channels."""

Widths = TypeVar("Widths")
"""A network's own."""


@dataclass(frozen=True)
class Sizes:
    """Blocks of each of the three stages, and width of the first one."""

    blocks: int = 3
    width: int = 16


def network(sizes: Sizes) -> Module:
    """Define the network: image [B, 3, 32, 32] -> logits [B, 10]."""
    import torch
    from torch import nn

    def conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.stride = outputs // inputs
            self.added = outputs - inputs
            self.conv1, self.bn1 = conv(inputs, outputs, self.stride), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = conv(outputs, outputs, 1), nn.BatchNorm2d(outputs)
            nn.init.constant_(self.bn2.weight, resnet.RESIDUAL_GAMMA)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(x)))))
            half = self.added // 2
            shortcut = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.added - half))
            return nn.functional.relu(shortcut + inner)

    widths = [sizes.width * 2**stage for stage in range(3)]
    stages = [width for width in widths for _ in range(sizes.blocks)]
    blocks = [Block(inputs, outputs) for inputs, outputs in zip([sizes.width, *stages], stages, strict=False)]
    stem = conv(3, sizes.width, 1), nn.BatchNorm2d(sizes.width), nn.ReLU()
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], cifar10.CLASSES))


def samples(_: object, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures [3, 32, 32] with the statistics of natural images, normalised."""
    while True:
        yield {"image": _normalised(picture(rng, cifar10.SIDE, cifar10.SIDE))}


def labelled(path: Path) -> LabelledSet:
    """Take CIFAR-10's test pictures (servemark/datasets/cifar10.py). Raises InputDataError."""
    pictures = cifar10.read(path)

    def example(index: int) -> Example:
        pixels = pictures.images[index] / np.float32(255)
        return Example(({"image": _normalised(pixels)},), int(pictures.labels[index]))

    return LabelledSet(len(pictures.labels), example)


def _normalised(pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    normalised: npt.NDArray[np.float32] = (pixels - MEAN) / STD
    return normalised


def classifier(
    name: str,
    title: str,
    citation: str,
    *,
    full: Variant[Widths],
    tiny: Variant[Widths],
    slo_ms: float,
    origin: str,
    network: Callable[[Widths], Module],
) -> Workload:
    """Describe a network that maps `image` [3, 32, 32] to `logits` [10]."""
    return define(
        name,
        title,
        full=full,
        tiny=tiny,
        task="image classification",
        suites=("HPC workload analysis",),
        inputs=lambda _: (Tensor("image", "FP32", (3, cifar10.SIDE, cifar10.SIDE)),),
        outputs=lambda _: (Tensor("logits", "FP32", (cifar10.CLASSES,)),),
        max_batch=128,
        slo=Slo(99, slo_ms),
        quality=Quality("top-1", None, "CIFAR-10's 10,000 test pictures"),
        citation=citation,
        origin=origin,
        locustfile="classification",
        build=lambda name, sizes: seeded_classifier(name, network, sizes, samples),
        samples=samples,
        dataset=cifar10.KEY,
        labelled=labelled,
    )


WORKLOAD = classifier(
    "resnet20_cifar",
    "ResNet-20 for CIFAR-10",
    resnet.CITATION,
    full=Variant(Sizes(), parameters=269_722, flops=81_102_080),
    tiny=Variant(Sizes(blocks=1, width=4), parameters=5_006, flops=1_696_064),
    origin="The paper's smallest network for CIFAR-10, whose accuracy there is 91.25 %. The HPC workload analysis "
    "names ResNet and CIFAR, and no depth.",
    slo_ms=10,
    network=network,
)
