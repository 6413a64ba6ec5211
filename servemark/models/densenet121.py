"""DenseNet-121: image classification (AI Matrix); many concatenations, bound by memory rather than arithmetic.

Huang et al. 2017, "Densely Connected Convolutional Networks" (CVPR), form BC; torchvision's module and parameter names.
"""

from dataclasses import dataclass

from servemark.models.blocks.classification import classification
from servemark.workload import Module, Variant

CITATION = "Huang et al. 2017, Densely Connected Convolutional Networks, CVPR (arXiv:1608.06993)"


@dataclass(frozen=True)
class Sizes:
    """Layers in each dense block, channels that each layer adds, width of the stem, classes and picture side."""

    blocks: tuple[int, int, int, int] = (6, 12, 24, 16)
    growth: int = 32
    stem: int = 64
    classes: int = 1000
    side: int = 224


def network(sizes: Sizes) -> Module:
    """Make torchvision's DenseNet: image [B, 3, side, side] -> logits [B, classes]."""
    from torchvision.models import DenseNet

    model: Module = DenseNet(sizes.growth, sizes.blocks, sizes.stem, num_classes=sizes.classes)
    return model


WORKLOAD = classification(
    "densenet121",
    "DenseNet-121",
    CITATION,
    full=Variant(Sizes(), parameters=7_978_856, flops=5_668_323_328),
    tiny=Variant(Sizes(blocks=(2, 2, 2, 2), growth=8, stem=8, classes=10, side=32), parameters=26_232, flops=1_581_820),
    origin="The authors' network. AI Matrix's Caffe network is the same one. Its TensorFlow script has another, with "
    "three dense blocks and bottlenecks as wide as the growth. Its 73.29 % top-1 is of TensorFlow's.",
    slo_ms=20,
    network=network,
)
