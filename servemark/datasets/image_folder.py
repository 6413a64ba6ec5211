"""A folder of pictures through ImageNet's standard preprocessing (as torchvision's Resize(256), CenterCrop(224))."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from servemark.datasets import _text
from servemark.errors import InputDataError

if TYPE_CHECKING:
    from PIL import Image

CLASSES = 1000
LABELS = "val_map.txt"
_LABELS_FIX = f"a folder for each of the {CLASSES} classes, or {LABELS} with a line `FILE CLASS` for each picture"
SUFFIXES = {".jpg", ".jpeg", ".png"}
SHORTER_SIDE, CROP = 256, 224
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def read(folder: Path) -> Iterator[npt.NDArray[np.float32]]:
    """Read every JPEG and PNG below `folder` in order of path, as FP32 [3, 224, 224].

    Raises InputDataError for a folder without pictures, and naming the file for one that is empty or corrupt.
    """
    return map(load, paths(folder))


def paths(folder: Path) -> list[Path]:
    """List every JPEG and PNG below `folder` in order of path. Raises InputDataError where there is none."""
    if not folder.is_dir():
        raise InputDataError(f"{folder} is not a folder", fix="give a folder with JPEG or PNG files in it")
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise InputDataError(f"{folder} holds no JPEG or PNG files", fix="give a folder with JPEG or PNG files in it")
    return found


def classes(folder: Path) -> list[tuple[Path, int]]:
    """List the pictures of `folder` with their classes, counted from 0.

    Either `val_map.txt`, as MLPerf Inference has it (`ILSVRC2012_val_00000001.JPEG 65`), names them, or each of 1,000
    folders holds those of a class, in order of the folders' names (torchvision's ImageFolder). Raises InputDataError
    with file and line.
    """
    if (folder / LABELS).is_file():
        return [_mapped(folder, place, line) for place, line in _text.lines(folder / LABELS, _LABELS_FIX)]
    found = paths(folder)
    names = sorted(child.name for child in folder.iterdir() if child.is_dir())
    if len(names) != CLASSES:
        raise InputDataError(
            f"{folder} has no labels: it holds {len(names)} folders and no {LABELS}", fix=f"lay it out as {_LABELS_FIX}"
        )
    number = {name: index for index, name in enumerate(names)}
    stray = [path for path in found if path.parent.parent != folder]
    if stray:
        raise InputDataError(f"{stray[0]} lies in no folder of a class", fix=f"lay it out as {_LABELS_FIX}")
    return [(path, number[path.parent.name]) for path in found]


def _mapped(folder: Path, place: str, line: str) -> tuple[Path, int]:
    name, _, label = line.rpartition(" ")
    if not name or not label.isdecimal() or int(label) >= CLASSES:
        raise InputDataError(f"{place}: {line[:80]!r} is not a file with a class from 0 to 999", fix=_LABELS_FIX)
    if not (folder / name).is_file():
        raise InputDataError(f"{place}: {folder / name} is not there", fix="get the whole data set")
    return folder / name, int(label)


def decode(file: Path | BinaryIO, place: str | Path) -> "Image.Image":
    """Decode one picture to RGB. Raises InputDataError naming the place it lies at."""
    from PIL import Image

    try:
        with Image.open(file) as picture:
            return picture.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputDataError(f"{place} is not a readable picture: {error}", fix="replace or remove the file") from error


def fit(picture: "Image.Image", shorter_side: int, crop: int, *, nearest: bool = False) -> "Image.Image":
    """Scale to a shorter side (bilinear and antialiased, or to the nearest pixel) and cut out a square's centre."""
    from PIL import Image

    width, height = picture.size
    scale = shorter_side / min(width, height)
    picture = picture.resize(
        (max(shorter_side, int(width * scale)), max(shorter_side, int(height * scale))),
        Image.Resampling.NEAREST if nearest else Image.Resampling.BILINEAR,
    )
    left, top = round((picture.width - crop) / 2), round((picture.height - crop) / 2)
    return picture.crop((left, top, left + crop, top + crop))


def load(path: Path) -> npt.NDArray[np.float32]:
    """Read one picture: RGB, shorter side 256, centre 224 x 224, normalised, CHW. Raises InputDataError naming it."""
    pixels = np.asarray(fit(decode(path, path), SHORTER_SIDE, CROP), np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1))
