"""PASCAL VOC 2007's test pictures in the official layout: `VOCdevkit/VOC2007/{ImageSets/Main/test.txt,JPEGImages}`.

Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge" (IJCV).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from servemark.datasets import CATALOGUE, COPY, Origin, _text
from servemark.errors import InputDataError, parsing

KEY = "voc2007"
ORIGIN = Origin(
    "host.robots.ox.ac.uk/pascal/VOC/voc2007 (test)", 451, "Flickr's terms", size_from=CATALOGUE, terms_from=COPY
)
EDGES = ("xmin", "ymin", "xmax", "ymax")
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""In order of the alphabet; models count them from 1."""
Object = tuple[int, tuple[float, float, float, float], bool]
"""Class, box (its first and last columns and rows, from 0), and whether it is difficult."""
FIX = "unpack the official VOCtest_06-Nov-2007.tar; a line of the list is a picture's number like 000001"


def pictures(folder: Path) -> Iterator[Path]:
    """List the test pictures in the order of the image set; `folder` holds VOCdevkit, or is VOC2007 itself.

    Raises InputDataError naming file and line for anything that is not the official layout.
    """
    nested = folder / "VOCdevkit" / "VOC2007"
    root = nested if nested.is_dir() else folder
    for place, line in _text.lines(root / "ImageSets" / "Main" / "test.txt", FIX):
        if not re.fullmatch(r"\d{6}", line.strip()):
            raise InputDataError(f"{place}: {line[:80]!r} is not a picture's number", fix=FIX)
        picture = root / "JPEGImages" / f"{line.strip()}.jpg"
        if not picture.is_file():
            raise InputDataError(f"{place}: {picture} is not there", fix=FIX)
        yield picture


def annotated(folder: Path) -> list[tuple[Path, list[Object]]]:
    """Read the test pictures with their objects. Raises InputDataError naming the file."""
    return [(picture, _objects(picture)) for picture in pictures(folder)]


def _objects(picture: Path) -> list[Object]:
    path = picture.parents[1] / "Annotations" / f"{picture.stem}.xml"
    with parsing(path, InputDataError, fix=FIX):
        root = ElementTree.parse(path).getroot()  # noqa: S314 - the user's own data set; expat bounds its expansion
        return [_object(each) for each in root.iter("object")]


def _object(entry: "ElementTree.Element") -> Object:
    name = entry.findtext("name", "")
    if name not in CLASSES:
        raise ValueError(f"{name!r} is none of the 20 classes")
    left, top, right, bottom = (float(entry.findtext(f"bndbox/{edge}", "")) - 1 for edge in EDGES)
    return CLASSES.index(name) + 1, (left, top, right, bottom), entry.findtext("difficult", "0").strip() == "1"
