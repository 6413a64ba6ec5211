"""VGG-16 for small pictures (HPC workload analysis).

Simonyan & Zisserman 2015, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR), configuration D.
For 32 x 32 pixels it has a BatchNorm behind each convolution, after Liu & Deng 2015. Its five poolings leave one cell,
which a single dense layer reads, as in the networks that are commonly trained on CIFAR-10.
"""

from dataclasses import dataclass

from servemark.datasets import cifar10
from servemark.models.resnet20_cifar import classifier
from servemark.models.vgg16 import STAGES
from servemark.workload import Module, Variant


@dataclass(frozen=True)
class Sizes:
    """The divisor of all widths."""

    divisor: int = 1


def network(sizes: Sizes) -> Module:
    """Define VGG-16: image [B, 3, 32, 32] -> logits [B, 10]."""
    from torch import nn
    from torchvision.models.vgg import make_layers

    layers: list[str | int] = []
    for width, convolutions in STAGES:
        layers += [*[width // sizes.divisor] * convolutions, "M"]
    head = nn.Linear(STAGES[-1][0] // sizes.divisor, cifar10.CLASSES)
    return nn.Sequential(make_layers(layers, batch_norm=True), nn.Flatten(), head)


WORKLOAD = classifier(
    "vgg16_cifar",
    "VGG-16 for CIFAR-10",
    "Liu & Deng 2015, Very Deep Convolutional Neural Network Based Image Classification, ACPR",
    full=Variant(Sizes(), parameters=14_728_266, flops=626_403_328),
    tiny=Variant(Sizes(divisor=16), parameters=58_686, flops=2_654_848),
    origin="Configuration D with BatchNorm and one dense layer. The HPC workload analysis names VGG and CIFAR, and no "
    "depth.",
    slo_ms=10,
    network=network,
)
