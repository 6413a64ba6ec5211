"""The user's pictures and texts as requests, prepared as the model's own processor and tokenizer do it."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.datasets import image_folder
from servemark.errors import InputDataError
from servemark.hub.blocks.ports import Port
from servemark.workload import Sample

TOKENIZER = "tokenizer.json"
RESAMPLING = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Numbers that a processor's configuration gives to ways of resizing (Pillow's)."""


def reader(inputs: Sequence[Port], model: str) -> Callable[[Path], Iterator[Sample]] | None:
    """Find how to read requests for these inputs from files; None where there is no way."""
    held = {port.holds: port for port in inputs}
    if set(held) == {"picture"}:
        return functools.partial(pictures, held["picture"])
    if set(held) == {"ids", "mask"}:
        return functools.partial(texts, held["ids"], held["mask"], model)
    return None


def pictures(port: Port, folder: Path) -> Iterator[Sample]:
    """Prepare every JPEG and PNG below a folder. Raises InputDataError naming the file."""
    for path in image_folder.paths(folder):
        yield {port.name: picture(port, path)}


def picture(port: Port, path: Path) -> npt.NDArray[np.float32]:
    """Prepare one picture [3, height, width]: resized, cut to its centre, normalised. Raises InputDataError."""
    from PIL import Image

    height, width = port.shape[1:]
    way = Image.Resampling[port.resample.upper()]
    found = image_folder.decode(path, path)
    if port.kept:
        # As torchvision's Resize: the longer side is rounded down.
        shorter = int(min(height, width) / port.kept + 1e-6)
        size = [shorter * side // min(found.size) for side in found.size]
        found = found.resize((max(size[0], width), max(size[1], height)), way)
        rounded = math.floor if port.rounded_down else round
        left, top = rounded((found.width - width) / 2), rounded((found.height - height) / 2)
        found = found.crop((left, top, left + width, top + height))
    else:
        found = found.resize((width, height), way)
    mean, std = np.array(port.mean, np.float32), np.array(port.std, np.float32)
    pixels = np.asarray(found, np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - mean) / std).transpose(2, 0, 1))


def texts(ids: Port, mask: Port, model: str, path: Path) -> Iterator[Sample]:
    """Read a text from each line of a file, through the model's own tokenizer. Raises InputDataError."""
    tokenizer = _tokenizer(model, ids)
    for line in _lines(path):
        found = tokenizer.encode(line)
        yield {
            ids.name: np.array(found.ids, np.int64),
            mask.name: np.array(found.attention_mask, np.int64),
        }


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


def _tokenizer(model: str, ids: Port) -> Any:
    """Load the tokenizer, which cuts and pads to the input's length. Raises InputDataError."""
    import tokenizers

    from servemark.hub.blocks.network import file_of, quoted  # with what counts networks, which a server's user lacks

    try:
        path = file_of(model, TOKENIZER)
    except Exception as error:  # whatever the hub or the network raises
        raise InputDataError(
            f"{model}: its {TOKENIZER}, without which texts cannot become ids, could not be had: {quoted(error)}",
            fix="tokenizer.save_pretrained(FOLDER) and `servemark import FOLDER`; or run it once where the hub answers",
        ) from error
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises plain ones
        raise InputDataError(f"{path} is not a tokenizer: {error}", fix="tokenizer.save_pretrained(FOLDER)") from error
    tokenizer.enable_truncation(ids.shape[0])
    tokenizer.enable_padding(length=ids.shape[0], pad_id=ids.pad)
    return tokenizer
