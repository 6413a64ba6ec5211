"""SSD-ResNet34: object detection in one stage, "light" (MLPerf Training v0.5).

Liu et al. 2016, "SSD: Single Shot MultiBox Detector" (ECCV), on a ResNet-34 (He et al. 2016, CVPR) as MLPerf's
reference has it: cut off behind its third stage, whose stride is 1, so that its map has 38 x 38 cells; five more maps
of two convolutions each; the boxes of `ssd300` and COCO's 81 labels. Candidates score 0.05 at least, 200 of each class
go into suppression at 0.5, and the best 200 are answered. MLPerf Inference's SSD-ResNet34 is of 1200 x 1200 and is
another.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.datasets import coco2017
from servemark.models import ssd300
from servemark.models.blocks import detection
from servemark.models.synthesis.images import IMAGENET_MEAN, IMAGENET_STD
from servemark.workload import LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

if TYPE_CHECKING:
    from PIL import Image

THRESHOLDS = ssd300.Thresholds(score=0.05, overlap=0.5, candidates=200)
BLOCKS = (3, 4, 6)
NO_MEAN = np.zeros((3, 1, 1), np.float32)


@dataclass(frozen=True)
class Sizes:
    """Width of the first stage, classes with the background, answered detections and how many pictures have."""

    width: int = 64
    classes: int = 81
    detections: int = 200
    typical: int = 35


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

    def extra(inputs: int, middle: int, outputs: int, *, stride: int) -> nn.Sequential:
        second = nn.Conv2d(middle, outputs, 3, stride, padding=stride - 1)
        return nn.Sequential(nn.Conv2d(inputs, middle, 1), nn.ReLU(inplace=True), second, nn.ReLU(inplace=True))

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
    return ssd300.seeded_detector(name, lambda: network(sizes), sizes, samples(np.random.default_rng(0)))


def preprocess(picture: "Image.Image") -> Sample:
    """Resize to 300 x 300 and normalise by ImageNet's mean and deviation."""
    pixels = np.asarray(detection.stretch(picture, mean=NO_MEAN, side=ssd300.SIDE)["image"], np.float32)
    return {"image": (pixels / np.float32(255) - IMAGENET_MEAN) / IMAGENET_STD}


def samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs, at the model's own size."""
    return detection.samples(rng, [(ssd300.SIDE, ssd300.SIDE)], [1.0], preprocess)


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the pictures of COCO 2017's validation set. Raises InputDataError naming file and line."""
    return detection.read(coco2017.LAYOUT.pictures(path), preprocess)


def labelled(path: Path) -> LabelledSet:
    """The same with their objects; labels count 80 classes from 1. Raises InputDataError naming file and line."""
    side = ssd300.SIDE
    return detection.coco_set(coco2017.LAYOUT, path, preprocess, lambda _size: (side, side), detection.counted_from_one)


FULL = Sizes()

WORKLOAD = define(
    "ssd_resnet34",
    "SSD-ResNet34",
    full=Variant(FULL, parameters=19_972_534, flops=31_724_157_440),
    task="object detection",
    suites=("MLPerf Training v0.5",),
    inputs=lambda _: (Tensor("image", "FP32", (3, ssd300.SIDE, ssd300.SIDE)),),
    outputs=lambda sizes: detection.outputs(sizes.detections),
    max_batch=32,
    slo=Slo(99, 50),
    quality=Quality("mAP@[.5:.95]", 0.212, "COCO 2017 validation"),
    citation="Liu et al. 2016, SSD: Single Shot MultiBox Detector, ECCV (arXiv:1512.02325)",
    origin="MLPerf Training v0.5's reference and its target, 0.212; AIBench ended its own run at 0.2247.",
    locustfile="object_detection",
    build=build,
    samples=lambda _, rng: samples(rng),
    dataset=coco2017.KEY,
    read=read,
    labelled=labelled,
)
