"""OpenImages' validation pictures of MLPerf Inference's 264 classes, as its reference lays them out.

`annotations/openimages-mlperf.json` in COCO's format, and `validation/data/*.jpg`: what the reference's program
tools/openimages.py makes (mlcommons/inference, vision/classification_and_detection). Kuznetsova et al. 2020, "The Open
Images Dataset V4" (IJCV).
"""

from pathlib import Path

from servemark.datasets import Origin
from servemark.datasets._coco_format import Layout

KEY = "openimages"
ORIGIN = Origin(
    "storage.googleapis.com/openimages, by mlcommons/inference", None, "annotations CC BY 4.0, pictures CC BY 2.0"
)
LAYOUT = Layout(
    Path("annotations/openimages-mlperf.json"),
    Path("validation/data"),
    "make it with openimages_mlperf.sh of mlcommons/inference, vision/classification_and_detection/tools",
)
"""264 categories, with ids from 0."""
