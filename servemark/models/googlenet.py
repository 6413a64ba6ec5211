"""GoogLeNet: image classification (AI Matrix).

Szegedy et al. 2015, "Going Deeper with Convolutions" (CVPR), in torchvision's form without the auxiliary heads:
BatchNorm after every convolution instead of local response normalisation, and 3x3 kernels in the branch that the paper
gives 5x5. Parameter names are torchvision's, so its weights load; its `transform_input` is off, as pictures come
normalised.
"""

from dataclasses import dataclass

from servemark.models.blocks.classification import classification
from servemark.workload import Module, Variant

CITATION = "Szegedy et al. 2015, Going Deeper with Convolutions, CVPR (arXiv:1409.4842)"
INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Table 1 of the paper: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection; a stage ends with a max-pooling."""


@dataclass(frozen=True)
class Sizes:
    """Divisor of all widths (the narrowest layer keeps 8), number of classes and picture side in pixels."""

    divisor: int = 1
    classes: int = 1000
    side: int = 224


def network(sizes: Sizes) -> Module:
    """Define GoogLeNet: image [B, 3, side, side] -> logits [B, classes]."""
    from torch import nn
    from torchvision.models.googlenet import BasicConv2d, Inception

    def narrow(width: int) -> int:
        return max(8, width // sizes.divisor)

    class GoogLeNet(nn.Sequential):
        def __init__(self) -> None:
            super().__init__()
            stem, width = narrow(64), narrow(192)
            self.conv1 = BasicConv2d(3, stem, kernel_size=7, stride=2, padding=3)
            self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
            self.conv2 = BasicConv2d(stem, stem, kernel_size=1)
            self.conv3 = BasicConv2d(stem, width, kernel_size=3, padding=1)
            self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
            for name, table in INCEPTIONS.items():
                if name == "4a":
                    self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
                elif name == "5a":
                    self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
                branches = [narrow(each) for each in table]
                self.add_module(f"inception{name}", Inception(width, *branches))
                width = branches[0] + branches[2] + branches[4] + branches[5]
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.flatten = nn.Flatten()
            self.fc = nn.Linear(width, sizes.classes)

    return GoogLeNet()


WORKLOAD = classification(
    "googlenet",
    "GoogLeNet",
    CITATION,
    full=Variant(Sizes(), parameters=6_624_904, flops=2_996_752_384),
    tiny=Variant(Sizes(divisor=8, classes=10, side=32), parameters=98_358, flops=1_570_720),
    origin="torchvision's form. AI Matrix runs Caffe's BVLC network (`googlenet_lrn`: nine 5x5, two local response "
    "normalisations, no BatchNorm) and one with BatchNorm; its 70.01 % top-1 is of TensorFlow's.",
    slo_ms=10,
    network=network,
)
