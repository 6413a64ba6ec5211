"""Requests for libraries' models: drawn by what each input holds, or of the user's pictures, texts and recordings.

The latter are prepared by the model's library.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import image_folder, librispeech
from servemark.errors import InputDataError
from servemark.hub.blocks.ports import Port
from servemark.models.synthesis.images import picture
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.models.synthesis.speech import SAMPLE_RATE, waveform
from servemark.models.synthesis.text import ENGLISH
from servemark.workload import Sample

if TYPE_CHECKING:
    from PIL import Image

QUESTION = 1 / 10
"""Share of the ids that are the question, of those with its context: our choice."""
SHORTEST_TEXT, MEAN_TEXT, TEXT_SIGMA = 8, 0.4, 0.6
"""Shortest text in ids; mean length as a share of the longest, and the deviation of its logarithm: our choice."""


def requests(inputs: tuple[Port, ...], rng: np.random.Generator) -> Iterator[Sample]:
    """Draw requests, endlessly."""
    length = next((port.shape[0] for port in inputs if port.holds == "ids"), 0)
    lengths = Lengths(MEAN_TEXT * length, TEXT_SIGMA, SHORTEST_TEXT, length) if length > 2 * SHORTEST_TEXT else None
    while True:
        taken = lengths.draw(rng) if lengths else length
        yield {port.name: _drawn(port, rng, taken) for port in inputs}


def _drawn(port: Port, rng: np.random.Generator, length: int) -> npt.NDArray[Any]:
    match port.holds:
        case "picture":
            mean, std = (np.array(each, np.float32)[:, None, None] for each in (port.mean, port.std))
            return np.asarray((picture(rng, *port.shape[1:]) - mean) / std, np.float32)
        case "ids":
            ids = np.full(port.shape, port.pad, np.int64)
            ids[:length] = _words(port.vocabulary).draw(rng, length)
            if port.first is not None:
                ids[0] = port.first
            if port.last is not None:
                ids[length - 1] = port.last
            return ids
        case "mask":
            return (np.arange(port.shape[0]) < length).astype(np.int64)
        case "context":
            place = np.arange(port.shape[0])
            return ((place >= length * QUESTION) & (place < length)).astype(np.int64)
        case "sound":
            # A recogniser's front end brings each utterance to mean 0 and deviation 1.
            sound = waveform(rng, port.shape[0] / SAMPLE_RATE)[: port.shape[0]]
            return np.asarray((sound - sound.mean()) / sound.std(), np.float32)
        case _:
            return rng.standard_normal(port.shape, dtype=np.float32)


@lru_cache(maxsize=4)
def _words(vocabulary: int) -> Popularity:
    return Popularity.zipf(vocabulary, s=ENGLISH["s"], q=ENGLISH["q"])


Pictures = Callable[["Image.Image"], npt.NDArray[np.float32]]
"""Prepares an RGB picture: [3, height, width]."""
Texts = Callable[[str], Sample]
Sounds = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""Prepares a recording [samples] of 16 kHz: the same cut or padded, or its spectrum."""
Read = Callable[[Path], Iterator[Sample]]
CAPTION = ".txt"
"""Ending of the file beside a picture that has its text, where a model takes both."""


def reader(inputs: Sequence[Port], preparation: Callable[[str], Any]) -> Read | None:
    """Find how to read requests for these inputs from files; None where there is no way.

    `preparation` gives the library's `pictures`, `texts` or `sounds`. It imports the library, which takes seconds, so
    it is called when files are read.
    """
    names = {port.holds: port.name for port in inputs}
    match sorted(names):
        case ["picture"]:
            return lambda folder: _of_pictures(names["picture"], preparation("pictures"), folder)
        case ["ids", "mask"] | ["context", "ids", "mask"]:
            return lambda path: map(preparation("texts"), _lines(path))
        case ["ids", "mask", "picture"]:
            return lambda folder: _of_captioned(names["picture"], preparation("pictures"), preparation("texts"), folder)
        case ["sound"] | ["features"]:
            return lambda folder: _of_recordings(inputs[0].name, preparation("sounds"), folder)
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
        # `splitlines` would also cut at what a text may hold, such as U+2028.
        whole = files.text(path, files.DATA_BYTES).replace("\r\n", "\n")
        found = [line for line in whole.split("\n") if line.strip()]
    except files.NotTextError as error:
        raise InputDataError(f"{path} is not a text: {error}", fix=error.fix) from None
    except OSError as error:
        raise InputDataError(
            f"{path} cannot be read: {error.strerror}", fix="give a file with a text in each line"
        ) from None
    if not found:
        raise InputDataError(f"{path} holds no text", fix="write a text into each line")
    return found
