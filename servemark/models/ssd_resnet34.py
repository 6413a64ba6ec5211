"""SSD-ResNet34: object detection in one stage, "light" (MLPerf Training v0.5).

Liu et al. 2016, "SSD: Single Shot MultiBox Detector" (ECCV), on a ResNet-34 (He et al. 2016, CVPR) as MLPerf's
reference has it: cut off behind its third stage, whose stride is 1, so that its map has 38 x 38 cells; five more maps
of two convolutions each; the boxes of `ssd300` and COCO's 81 labels. Candidates score 0.05 at least, 200 of each class
go into suppression at 0.5, and the best 200 are answered. MLPerf Inference's SSD-ResNet34 is of 1200 x 1200 and is
another.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from servemark.datasets import coco2017
from servemark.models import ssd300
from servemark.models.blocks import detection
from servemark.models.ssd300 import SIDE, Sizes, extra
from servemark.workload import Module, Quality, Sample, Variant

THRESHOLDS = ssd300.Thresholds(score=0.05, overlap=0.5, candidates=200)
BLOCKS = (3, 4, 6)


def network(sizes: Sizes) -> Module:
    """Define it: image [B, 3, 300, 300] -> boxes [B, D, 4], scores [B, D], labels [B, D], num_detections [B, 1]."""
    import torch
    from torch import nn
    from torchvision.models.resnet import BasicBlock, conv1x1

    width = sizes.width

    def stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
        shortcut = (
            None if inputs == outputs else nn.Sequential(conv1x1(inputs, outputs, stride), nn.BatchNorm2d(outputs))
        )
        return nn.Sequential(
            BasicBlock(inputs, outputs, stride, shortcut), *(BasicBlock(outputs, outputs) for _ in range(blocks - 1))
        )

    class Extractor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(
                nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(3, stride=2, padding=1),
                stage(width, width, BLOCKS[0], 1),
                stage(width, 2 * width, BLOCKS[1], 2),
                stage(2 * width, 4 * width, BLOCKS[2], 1),
            )
            self.extra = nn.ModuleList(
                [
                    extra(4 * width, 4 * width, 8 * width, stride=2),
                    extra(8 * width, 4 * width, 8 * width, stride=2),
                    extra(8 * width, 2 * width, 4 * width, stride=2),
                    extra(4 * width, 2 * width, 4 * width, stride=1),
                    extra(4 * width, 2 * width, 4 * width, stride=1),
                ]
            )

        def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
            maps = [self.trunk(image)]
            for block in self.extra:
                maps.append(block(maps[-1]))
            return {str(level): features for level, features in enumerate(maps)}

    channels = [4 * width, 8 * width, 8 * width, 4 * width, 4 * width, 4 * width]
    return ssd300.single_shot(Extractor(), channels, sizes, THRESHOLDS)


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that pictures have objects, of most classes."""
    return ssd300.seeded_detector(name, network, sizes, samples(np.random.default_rng(0)))


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs, at the model's own size."""
    return detection.samples(rng, [(SIDE, SIDE)], [1.0], partial(detection.stretched, side=SIDE))


FULL = Sizes(classes=81)

WORKLOAD = ssd300.detector(
    "ssd_resnet34",
    "SSD-ResNet34",
    full=Variant(FULL, parameters=19_972_534, flops=31_724_157_440),
    suites=("MLPerf Training v0.5",),
    quality=Quality("mAP@[.5:.95]", 0.212, "COCO 2017 validation"),
    origin="MLPerf Training v0.5's reference and its target, 0.212; AIBench ended its own run at 0.2247.",
    build=build,
    samples=lambda _, rng: samples(rng),
    **detection.of_coco(coco2017.KEY, coco2017.LAYOUT, *detection.squares(SIDE), detection.counted_from_one),
)
