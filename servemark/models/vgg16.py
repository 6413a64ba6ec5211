"""VGG-16: image classification (AI Matrix); 89 % of its weights lie in the first dense layers.

Simonyan & Zisserman 2015, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (ICLR), configuration D.
Parameter names are torchvision's, so its weights load; its adaptive pooling to 7x7 is the identity at 224 pixels and
left out.
"""

from dataclasses import dataclass

from servemark.models.blocks.classification import classification
from servemark.workload import Module, Variant

CITATION = "Simonyan & Zisserman 2015, Very Deep Convolutional Networks, ICLR (arXiv:1409.1556)"
STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of the 3x3 convolutions before each of the five poolings (table 1 of the paper, column D)."""


@dataclass(frozen=True)
class Sizes:
    """Divisor of the convolutions' widths, width of the dense layers, number of classes and picture side."""

    divisor: int = 1
    dense: int = 4096
    classes: int = 1000
    side: int = 224


def network(sizes: Sizes) -> Module:
    """Define VGG-16: image [B, 3, side, side] -> logits [B, classes]."""
    from torch import nn
    from torchvision.models.vgg import make_layers

    layers: list[str | int] = []
    for width, convolutions in STAGES:
        layers += [*[width // sizes.divisor] * convolutions, "M"]
    width, side = STAGES[-1][0] // sizes.divisor, sizes.side // 2 ** len(STAGES)

    class Vgg(nn.Sequential):
        def __init__(self) -> None:
            super().__init__()
            self.features = make_layers(layers)
            self.flatten = nn.Flatten()
            self.classifier = nn.Sequential(
                nn.Linear(width * side**2, sizes.dense),
                nn.ReLU(inplace=True),
                nn.Dropout(),
                nn.Linear(sizes.dense, sizes.dense),
                nn.ReLU(inplace=True),
                nn.Dropout(),
                nn.Linear(sizes.dense, sizes.classes),
            )

    return Vgg()


WORKLOAD = classification(
    "vgg16",
    "VGG-16",
    CITATION,
    full=Variant(Sizes(), parameters=138_357_544, flops=30_940_528_640),
    tiny=Variant(Sizes(divisor=8, dense=64, classes=10, side=32), parameters=239_538, flops=10_192_128),
    origin="The authors' network D, which AI Matrix runs too. It publishes rates.",
    slo_ms=20,
    network=network,
)
