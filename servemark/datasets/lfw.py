"""Labeled Faces in the Wild: 13,233 pictures of 250 x 250 pixels, `<Name>/<Name>_0001.jpg`, and pairs to verify.

Huang et al. 2007, "Labeled Faces in the Wild" (UMass TR 07-49). `pairs.txt` starts with the number of folds and of
pairs of each kind in a fold; a line then holds `name, n, m` for two pictures of one person or `name, n, name, m` of
two, tab separated.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from servemark import files
from servemark.datasets import CATALOGUE, Origin, image_folder
from servemark.errors import InputDataError, parsing

if TYPE_CHECKING:
    from PIL import Image

KEY = "lfw"
ORIGIN = Origin("vis-www.cs.umass.edu/lfw", 181, "research; see its page", size_from=CATALOGUE)
PAIRS = "pairs.txt"
SIDE, CROP = 250, 160
FIX = "lay the official archive and pairs.txt out under DATA_ROOT/lfw"


def read(folder: Path) -> "Iterator[Image.Image]":
    """Read faces as RGB pictures of 160 x 160: those of pairs.txt, two for each pair, or all where there is none.

    A face is the centre of its picture, where LFW has it; no detector is run. Raises InputDataError naming file and
    line.
    """
    if not (folder / PAIRS).exists():
        return (face(path) for path in image_folder.paths(folder))
    return (face(path, place) for place, *pair in pairs(folder) for path in pair)


def pairs(folder: Path) -> list[tuple[str, Path, Path]]:
    """Read pairs.txt: place of the line, and the two pictures. Raises InputDataError naming file and line."""
    path = folder / PAIRS
    with parsing(path, InputDataError, fix=FIX):
        header, *lines = files.text(path, files.DATA_BYTES).splitlines()
    numbers = header.split()
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise InputDataError(f"{path}:1: {header[:80]!r} is not the number of folds and of pairs", fix=FIX)
    expected = 2 * int(numbers[0]) * int(numbers[1])
    if len(lines) != expected or not expected:
        raise InputDataError(f"{path}:1: announces {expected} pairs, {len(lines)} follow", fix=FIX)
    return [_pair(folder, line, f"{path}:{number}") for number, line in enumerate(lines, 2)]


def labelled_pairs(folder: Path) -> list[tuple[str, Path, Path, int, int]]:
    """The same with whether it is one person, and the number of the fold. Raises InputDataError."""
    found = pairs(folder)
    folds = int(files.text(folder / PAIRS, files.DATA_BYTES).split(maxsplit=1)[0])
    length = len(found) // folds
    return [
        (place, first, second, int(first.parent == second.parent), index // length)
        for index, (place, first, second) in enumerate(found)
    ]


def face(path: Path, place: str = "") -> "Image.Image":
    """Read one picture, whose place is named in errors. Raises InputDataError naming file and line."""
    named = f"{place}: {path}" if place else path
    return image_folder.fit(image_folder.decode(path, named), SIDE, CROP)


def _pair(folder: Path, line: str, place: str) -> tuple[str, Path, Path]:
    fields = line.split("\t")
    if len(fields) == 3:
        fields.insert(2, fields[0])
    if len(fields) != 4 or not (fields[1].isdecimal() and fields[3].isdecimal()):
        raise InputDataError(f"{place}: {line[:80]!r} is neither `name, n, m` nor `name, n, name, m`", fix=FIX)
    first, second = (folder / name / f"{name}_{int(n):04d}.jpg" for name, n in (fields[:2], fields[2:]))
    return place, first, second
