"""SSD300 with COCO's 91 labels, torchvision's form of it: `ssd300` with larger heads and more classes to suppress.

Liu et al. 2016, "SSD: Single Shot MultiBox Detector" (ECCV), section 3.4. The best 100 detections are answered, as many
as COCO's metric looks at.
"""

from servemark.datasets import coco2017
from servemark.models import ssd300
from servemark.models.blocks import detection
from servemark.models.ssd300 import SIDE, Sizes
from servemark.workload import Quality, Variant

FULL = Sizes(classes=91, detections=100)

WORKLOAD = ssd300.detector(
    "ssd300_coco",
    "SSD300, COCO",
    suites=("AI Matrix, variant",),
    origin="torchvision's SSD300; AI Matrix runs VOC's 21 labels (`ssd300`).",
    full=Variant(FULL, parameters=35_641_826, flops=69_716_306_944),
    quality=Quality("mAP@[.5:.95]", None, "COCO 2017 validation"),
    **detection.of_coco(
        coco2017.KEY, coco2017.LAYOUT, ssd300.preprocess, lambda _size: (SIDE, SIDE), detection.own_category
    ),
)
