"""Faster R-CNN on one feature map ("C4"): `faster_rcnn` without the pyramid, as AIBench's ResNet-50 code has it.

Ren et al. 2015, "Faster R-CNN" (NIPS) on a ResNet as He et al. 2016, "Deep Residual Learning" (CVPR, appendix A) do it:
regions are proposed on the output of the fourth stage, stride 16, and the fifth stage reads each region's crop of
14 x 14. AIBench's TensorFlow code sets no pyramid, 6,000 regions before suppression and 1,000 after it. The fifth stage
on 1,000 regions is some nine tenths of the work. Requests are those of `faster_rcnn`; the code takes pictures with a
shorter side of 800.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from servemark.models import faster_rcnn
from servemark.models.blocks import rcnn, resnet
from servemark.models.blocks.rcnn import Features, Sizes
from servemark.workload import Module, Slo, Variant

if TYPE_CHECKING:
    import torch

STRIDE, CROP = 16, 14


def fourth_stage(sizes: Sizes) -> Features:
    """One map with all anchors on it; the fifth stage and the mean of its output read a region."""
    from torch import nn
    from torchvision.models._utils import IntermediateLayerGetter

    trunk = resnet.network(resnet.Sizes(blocks=sizes.blocks, width=sizes.width))

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = IntermediateLayerGetter(trunk, {"layer3": "0"})
            self.out_channels = sizes.width * 16

        def forward(self, image: "torch.Tensor") -> "dict[str, torch.Tensor]":
            maps: dict[str, torch.Tensor] = self.body(image)
            return maps

    head = nn.Sequential(trunk.get_submodule("layer4"), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Features(Backbone(), (STRIDE,), (rcnn.ANCHORS,), 1, CROP, head)


def build(name: str, sizes: Sizes) -> Module:
    """Seed the detector so that 20 to 100 objects are found on most pictures."""
    pictures = faster_rcnn.samples(sizes, np.random.default_rng(0))
    return rcnn.build(name, sizes, pictures, fourth_stage)


FULL = replace(faster_rcnn.FULL, pyramid=0, representation=2048, candidates=6000)
TINY = replace(faster_rcnn.TINY, width=4, pyramid=0, representation=128, proposals=16)

WORKLOAD = faster_rcnn.detector(
    "faster_rcnn_c4",
    "Faster R-CNN, C4",
    suites=("AIBench DC-AI-C9, variant",),
    origin="The network of AIBench's TensorFlow code: ResNet-50, no pyramid, 6,000 and 1,000 regions. There it has "
    "COCO's 81 classes and pictures with a shorter side of 800. 75 % is the report's, of VOC.",
    full=Variant(FULL, parameters=33_238_260, flops=1_750_096_896_000),
    tiny=Variant(TINY, parameters=78_024, flops=59_305_984),
    max_batch=4,
    slo=Slo(99, 500),
    build=build,
    **faster_rcnn.READERS,
)
