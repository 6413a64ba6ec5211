"""The user's pictures, texts and recordings as requests, prepared by the model's library."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import image_folder, librispeech
from servemark.errors import InputDataError
from servemark.hub.blocks.ports import Port
from servemark.workload import Sample

if TYPE_CHECKING:
    from PIL import Image

Pictures = Callable[["Image.Image"], npt.NDArray[np.float32]]
"""Prepares an RGB picture: [3, height, width]."""
Texts = Callable[[str], Sample]
Sounds = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""Prepares a recording [samples] of 16 kHz: the same cut or padded, or its spectrum."""
Read = Callable[[Path], Iterator[Sample]]
CAPTION = ".txt"
"""Ending of the file beside a picture that has its text, where a model takes both."""


def reader(
    inputs: Sequence[Port],
    pictures: Callable[[], Pictures],
    texts: Callable[[], Texts],
    sounds: Callable[[], Sounds],
) -> Read | None:
    """Find how to read requests for these inputs from files; None where there is no way.

    `pictures`, `texts` and `sounds` import the library, which takes seconds, so they are called when files are read.
    """
    names = {port.holds: port.name for port in inputs}
    match sorted(names):
        case ["picture"]:
            return lambda folder: _of_pictures(names["picture"], pictures(), folder)
        case ["ids", "mask"] | ["context", "ids", "mask"]:
            return lambda path: map(texts(), _lines(path))
        case ["ids", "mask", "picture"]:
            return lambda folder: _of_captioned(names["picture"], pictures(), texts(), folder)
        case ["sound"] | ["features"]:
            return lambda folder: _of_recordings(inputs[0].name, sounds(), folder)
    return None


def _of_pictures(name: str, prepare: Pictures, folder: Path) -> Iterator[Sample]:
    """Prepare every JPEG and PNG below a folder. Raises InputDataError naming the file."""
    for path in image_folder.paths(folder):
        yield {name: np.ascontiguousarray(prepare(image_folder.decode(path, path)))}


def _of_captioned(name: str, prepare: Pictures, texts: Texts, folder: Path) -> Iterator[Sample]:
    """Prepare pictures with the texts of the files beside them. Raises InputDataError naming the file."""
    for path in image_folder.paths(folder):
        caption = path.with_suffix(CAPTION)
        if not caption.is_file():
            raise InputDataError(f"{path} has no caption", fix=f"write its text into {caption}")
        picture = np.ascontiguousarray(prepare(image_folder.decode(path, path)))
        yield {name: picture, **texts(" ".join(_lines(caption)))}


def _of_recordings(name: str, prepare: Sounds, folder: Path) -> Iterator[Sample]:
    """Prepare every WAV and FLAC file below a folder. Raises InputDataError naming the file."""
    for recording in librispeech.read(folder):
        yield {name: np.ascontiguousarray(prepare(recording.waveform))}


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
