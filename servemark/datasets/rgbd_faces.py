"""RGB-D faces in the layout of AIBench's 3D face recognition: pictures, depth maps as .npy, and a CSV of each split.

`{train,eval,test}.csv` have a header and the columns rgb_image_path, dep_image_path and cls_name; paths are relative
to the folder of the CSV. The unit of the depth is not documented; values stay as they are.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import Origin, image_folder
from servemark.errors import InputDataError, parsing

KEY = "rgbd_faces"
ORIGIN = Origin("AIBench's authors, on request", None, "by agreement")
COLUMNS = ("rgb_image_path", "dep_image_path", "cls_name")
SIDE = 224
Row = Mapping[str, str | None]
FIX = "lay the data out as DATA_ROOT/rgbd_faces/test.csv with the columns " + ", ".join(COLUMNS)


def read(folder: Path, split: str = "test") -> Iterator[npt.NDArray[np.float32]]:
    """Read a split as FP32 [4, 224, 224]: colours from 0 to 255, then depth; shorter side 224, centre.

    Raises InputDataError naming file and line.
    """
    return (face(folder, row, place) for place, row in _rows(folder, split))


def labelled(folder: Path, split: str = "test") -> list[tuple[Row, str, int]]:
    """List the faces' rows with place and class: the names of the training split, in order. Raises InputDataError."""
    names = sorted({str(row["cls_name"]) for _, row in _rows(folder, "train")})
    classes: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    rows = _rows(folder, split)
    for place, row in rows:
        if row["cls_name"] not in classes:
            raise InputDataError(f"{place}: {row['cls_name']!r} is nobody of train.csv", fix=FIX)
    return [(row, place, classes[row["cls_name"]]) for place, row in rows]


def _rows(folder: Path, split: str) -> list[tuple[str, Row]]:
    """The rows of a split, each with its place."""
    path = folder / f"{split}.csv"
    with parsing(path, InputDataError, fix=FIX), files.opened_text(path) as file:
        rows = csv.DictReader(file)
        missing = set(COLUMNS) - set(rows.fieldnames or ())
        if missing:
            raise InputDataError(f"{path}:1: no column {', '.join(sorted(missing))}", fix=FIX)
        places: list[tuple[str, Row]] = [(f"{path}:{rows.line_num}", row) for row in rows]
    if not places:
        raise InputDataError(f"{path} lists no faces", fix=FIX)
    return places


def face(folder: Path, row: Row, place: str) -> npt.NDArray[np.float32]:
    """Read one face, as `read`. Raises InputDataError naming its place."""
    empty = [column for column in COLUMNS if not row[column]]
    if empty:
        raise InputDataError(f"{place}: no {', '.join(empty)}", fix=FIX)
    rgb, depth = folder / str(row["rgb_image_path"]), folder / str(row["dep_image_path"])
    picture = image_folder.fit(image_folder.decode(rgb, f"{place}: {rgb}"), SIDE, SIDE)
    colours = np.asarray(picture, np.float32)
    return np.concatenate([colours.transpose(2, 0, 1), _depth(depth, place)[None]])


def _depth(path: Path, place: str) -> npt.NDArray[np.float32]:
    from PIL import Image

    try:
        depth = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputDataError(f"{place}: {path} is not a depth map: {error}", fix="replace the file") from error
    if not isinstance(depth, np.ndarray) or depth.ndim != 2 or not depth.size or depth.dtype.kind not in "fiu":
        found = f"{depth.dtype} {list(depth.shape)}" if isinstance(depth, np.ndarray) else "several arrays"
        raise InputDataError(f"{place}: {path} holds {found}, not one number for each pixel", fix="replace the file")
    # to the nearest pixel: a mean of a depth and a missing one, 0, would be neither
    fitted = image_folder.fit(Image.fromarray(depth.astype(np.float32)), SIDE, SIDE, nearest=True)
    return np.asarray(fitted, np.float32)
