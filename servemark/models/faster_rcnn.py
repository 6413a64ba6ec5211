"""Faster R-CNN: object detection in two stages (AIBench DC-AI-C9).

Ren et al. 2015, "Faster R-CNN: Towards Real-Time Object Detection with Region Proposal Networks" (NIPS), in the form of
torchvision: a ResNet-50 with a feature pyramid (Lin et al. 2017, CVPR), the 20 classes of PASCAL VOC. Pictures are
letterboxed to 800 x 800. AIBench's code has the older head, on conv4 of a ResNet-101.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from servemark.models.blocks import detection, rcnn
from servemark.models.blocks.rcnn import Sizes
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

ASPECTS = ((3, 4, 1.0),)
"""Height to width and share: VOC's pictures are 500 x 375."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the detector so that 20 to 100 objects are found on most pictures."""
    return rcnn.build(name, sizes, samples(sizes, np.random.default_rng(0)))


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs of VOC's usual shape, enlarged and letterboxed."""
    return rcnn.samples(rng, sizes, ASPECTS, shorter=sizes.side)


FULL = Sizes(blocks=(3, 4, 6, 3), side=800, classes=21)
TINY = rcnn.TINY

detector = partial(
    define,
    task="object detection",
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: detection.outputs(sizes.detections),
    quality=Quality("mAP@0.5", 0.75, "PASCAL VOC 2007 test, 11-point"),
    citation="Ren et al. 2015, Faster R-CNN, NIPS (arXiv:1506.01497)",
    locustfile="object_detection",
    samples=samples,
)
"""Describes a detector of VOC's classes on letterboxed pictures."""
READERS = detection.of_voc(*detection.letterboxes(shorter=FULL.side, side=FULL.side))

WORKLOAD = detector(
    "faster_rcnn",
    "Faster R-CNN",
    suites=("AIBench DC-AI-C9",),
    origin="torchvision's, with a feature pyramid. AIBench's TensorFlow code has a ResNet-50 without one "
    "(`faster_rcnn_c4`), its PyTorch code a ResNet-101. 75 % is the report's; its 157,802 MFLOPs fit the ResNet-101 "
    "with 300 regions.",
    full=Variant(FULL, parameters=41_449_656, flops=268_042_642_432),
    tiny=Variant(TINY, parameters=205_968, flops=59_515_584),
    max_batch=8,
    slo=Slo(99, 100),
    build=build,
    **READERS,
)
