"""COCO 2017's validation pictures in the official layout: `annotations/instances_val2017.json` and `val2017/*.jpg`.

Lin et al. 2014, "Microsoft COCO: Common Objects in Context" (ECCV).
"""

from pathlib import Path

from servemark.datasets import CATALOGUE, COPY, Origin
from servemark.datasets._coco_format import Layout

KEY = "coco2017"
ORIGIN = Origin(
    "cocodataset.org", 1068, "annotations CC BY 4.0, pictures Flickr's terms", size_from=CATALOGUE, terms_from=COPY
)
LAYOUT = Layout(
    Path("annotations/instances_val2017.json"),
    Path("val2017"),
    "unpack the official annotations_trainval2017.zip and val2017.zip into one folder",
    more_keys=frozenset({"segmentation"}),
)
"""80 categories, with ids from 1 to 90."""
