"""Mask R-CNN: instance segmentation (AI Matrix).

He et al. 2017, "Mask R-CNN" (ICCV), in torchvision's form: a ResNet-101 of frozen batch statistics with a feature
pyramid, the 80 classes of COCO. Pictures are letterboxed to 1024 x 1024. AI Matrix runs matterport's code, whose heads
are wider and normalised and whose thresholds are 0.7 and 0.3. Masks are answered as they leave the head, 28 x 28 within
their boxes; pasting them into the picture is the client's part.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from servemark.datasets import coco2017
from servemark.models.blocks import detection, rcnn
from servemark.models.blocks.rcnn import Sizes
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

SHORTER_SIDE = 800 / 1024
"""Of a picture, in proportion to the square it is letterboxed to."""
ASPECTS = ((3, 4, 0.6), (4, 3, 0.2), (2, 3, 0.1), (1, 1, 0.05), (9, 16, 0.05))
"""Height to width and share: COCO's pictures are 640 pixels long, most of them 4:3."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the detector so that 20 to 100 objects are found on most pictures."""
    return rcnn.build(name, sizes, samples(sizes, np.random.default_rng(0)))


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw photographs of COCO's usual shapes, enlarged and letterboxed."""
    return rcnn.samples(rng, sizes, ASPECTS, shorter=round(sizes.side * SHORTER_SIDE))


FULL = Sizes(blocks=(3, 4, 23, 3), side=1024, classes=81, masks=256, frozen=True)
TINY = replace(rcnn.TINY, masks=8, frozen=True)
LETTERBOX = detection.letterboxes(shorter=round(FULL.side * SHORTER_SIDE), side=FULL.side)

WORKLOAD = define(
    "mask_rcnn",
    "Mask R-CNN",
    full=Variant(FULL, parameters=63_287_477, flops=683_041_538_048),
    tiny=Variant(TINY, parameters=207_349, flops=74_693_824),
    task="instance segmentation",
    suites=("AI Matrix",),
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: detection.outputs(sizes.detections, masks=True),
    max_batch=16,
    slo=Slo(99, 200),
    quality=Quality("mask AP@[.5:.95]", None, "COCO 2017 validation"),
    citation="He et al. 2017, Mask R-CNN, ICCV (arXiv:1703.06870)",
    origin="torchvision's heads on a ResNet-101. AI Matrix runs matterport's code on 28 pictures, repeated to batches "
    "of 4, 8 and 16; it publishes no AP.",
    locustfile="object_detection",
    build=build,
    samples=samples,
    **detection.of_coco(coco2017.KEY, coco2017.LAYOUT, *LETTERBOX, detection.counted_from_one),
)
