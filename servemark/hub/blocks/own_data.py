"""The user's pictures and texts as requests, prepared by the model's library."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import image_folder
from servemark.errors import InputDataError
from servemark.hub.blocks.ports import Port
from servemark.workload import Sample

if TYPE_CHECKING:
    from PIL import Image

Pictures = Callable[["Image.Image"], npt.NDArray[np.float32]]
"""Prepares an RGB picture: [3, height, width]."""
Texts = Callable[[str], Sample]
Read = Callable[[Path], Iterator[Sample]]


def reader(inputs: Sequence[Port], pictures: Callable[[], Pictures], texts: Callable[[], Texts]) -> Read | None:
    """Find how to read requests for these inputs from files; None where there is no way.

    `pictures` and `texts` import the library, which takes seconds, so they are called when files are read.
    """
    match {port.holds: port.name for port in inputs}:
        case {"picture": name, **others} if not others:
            return lambda folder: _of_pictures(name, pictures(), folder)
        case {"ids": _, "mask": _, **others} if not others:
            return lambda path: map(texts(), _lines(path))
    return None


def _of_pictures(name: str, prepare: Pictures, folder: Path) -> Iterator[Sample]:
    """Prepare every JPEG and PNG below a folder. Raises InputDataError naming the file."""
    for path in image_folder.paths(folder):
        yield {name: np.ascontiguousarray(prepare(image_folder.decode(path, path)))}


def _lines(path: Path) -> list[str]:
    try:
        found = [line for line in files.text(path, files.DATA_BYTES).splitlines() if line.strip()]
    except files.NotTextError as error:
        raise InputDataError(f"{path} is not a text: {error}", fix=error.fix) from None
    except OSError as error:
        raise InputDataError(
            f"{path} cannot be read: {error.strerror}", fix="give a file with a text in each line"
        ) from None
    if not found:
        raise InputDataError(f"{path} holds no text", fix="write a text into each line")
    return found
