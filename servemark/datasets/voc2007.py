"""PASCAL VOC 2007's test pictures in the official layout: `VOCdevkit/VOC2007/{ImageSets/Main/test.txt,JPEGImages}`.

Everingham et al. 2010, "The PASCAL Visual Object Classes (VOC) Challenge" (IJCV).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from servemark.errors import InputDataError

KEY = "voc2007"
FIX = "unpack the official VOCtest_06-Nov-2007.tar; a line of the list is a picture's number like 000001"


def pictures(folder: Path) -> Iterator[Path]:
    """List the test pictures in the order of the image set; `folder` holds VOCdevkit, or is VOC2007 itself.

    Raises InputDataError naming file and line for anything that is not the official layout.
    """
    nested = folder / "VOCdevkit" / "VOC2007"
    root = nested if nested.is_dir() else folder
    path = root / "ImageSets" / "Main" / "test.txt"
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputDataError(f"{path} cannot be read: {error}", fix=FIX) from error
    if not lines:
        raise InputDataError(f"{path} is empty", fix=FIX)
    for number, line in enumerate(lines, 1):
        if not re.fullmatch(r"\d{6}", line.strip()):
            raise InputDataError(f"{path}:{number}: {line[:80]!r} is no picture's number", fix=FIX)
        picture = root / "JPEGImages" / f"{line.strip()}.jpg"
        if not picture.is_file():
            raise InputDataError(f"{path}:{number}: {picture} is not there", fix=FIX)
        yield picture
