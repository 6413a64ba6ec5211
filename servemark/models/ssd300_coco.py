"""SSD300 with COCO's 91 labels, torchvision's form of it: `ssd300` with larger heads and more classes to suppress.

Liu et al. 2016, "SSD: Single Shot MultiBox Detector" (ECCV), section 3.4. The best 100 detections are answered, as many
as COCO's metric looks at.
"""

from collections.abc import Iterator
from pathlib import Path

from servemark.datasets import coco2017
from servemark.models import ssd300
from servemark.models.blocks import detection
from servemark.models.ssd300 import Sizes
from servemark.workload import LabelledSet, Quality, Sample, Variant


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the pictures of COCO 2017's validation set. Raises InputDataError naming file and line."""
    return detection.read(coco2017.LAYOUT.pictures(path), ssd300.preprocess)


def labelled(path: Path) -> LabelledSet:
    """The same with their objects; labels are COCO's own ids. Raises InputDataError naming file and line."""
    side = ssd300.SIDE
    return detection.coco_set(
        coco2017.LAYOUT, path, ssd300.preprocess, lambda _size: (side, side), detection.own_category
    )


FULL = Sizes(classes=91, detections=100)

WORKLOAD = ssd300.detector(
    "ssd300_coco",
    "SSD300, COCO",
    suites=("AI Matrix, variant",),
    origin="torchvision's SSD300; AI Matrix runs VOC's 21 labels (`ssd300`).",
    full=Variant(FULL, parameters=35_641_826, flops=69_716_306_944),
    quality=Quality("mAP@[.5:.95]", None, "COCO 2017 validation"),
    dataset=coco2017.KEY,
    read=read,
    labelled=labelled,
)
