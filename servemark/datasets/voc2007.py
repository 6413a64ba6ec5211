"""PASCAL VOC 2007's test pictures in the official layout: `VOCdevkit/VOC2007/{ImageSets/Main/test.txt,JPEGImages}`.

Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge" (IJCV).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from servemark.datasets import _text
from servemark.errors import InputDataError

KEY = "voc2007"
FIX = "unpack the official VOCtest_06-Nov-2007.tar; a line of the list is a picture's number like 000001"


def pictures(folder: Path) -> Iterator[Path]:
    """List the test pictures in the order of the image set; `folder` holds VOCdevkit, or is VOC2007 itself.

    Raises InputDataError naming file and line for anything that is not the official layout.
    """
    nested = folder / "VOCdevkit" / "VOC2007"
    root = nested if nested.is_dir() else folder
    for place, line in _text.lines(root / "ImageSets" / "Main" / "test.txt", FIX):
        if not re.fullmatch(r"\d{6}", line.strip()):
            raise InputDataError(f"{place}: {line[:80]!r} is no picture's number", fix=FIX)
        picture = root / "JPEGImages" / f"{line.strip()}.jpg"
        if not picture.is_file():
            raise InputDataError(f"{place}: {picture} is not there", fix=FIX)
        yield picture
