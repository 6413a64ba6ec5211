"""Description of a model file, whatever its format."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from servemark.errors import ArtifactError
from servemark.workload import Sample

OPEN = -1
"""A size that the file leaves open."""
MAX_BYTES = (2 << 30) - 1
"""protobuf's limit for one message."""
MAX_SHOWN = 60
DATATYPES = {
    "float32": "FP32",
    "float64": "FP64",
    "float16": "FP16",
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
}
"""The names that PyTorch and TensorFlow have for datatypes -> KServe's."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the file has it: its sizes begin with the batch."""

    name: str
    datatype: str
    """KServe's name."""
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ModelDescription:
    """A model file: its tensors in order, and what else is known before it runs."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    facts: Mapping[str, object]
    """Versions of format and producer."""
    parameters: int | None = None
    max_batch: int | None = None
    """The largest batch that the file allows; None where it does not say."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Inputs whose values the file itself bounds."""
    random: tuple[str, ...] = ()
    """Its operators that answer otherwise each time, as far as the format names them."""
    flops: Callable[[Mapping[str, tuple[int, ...]]], int | None] = lambda _: None
    """Counts one sample's FLOPs with inputs of these shapes, the batch included; None where it cannot."""


Ranges = Mapping[str, tuple[float, float]]
"""Input -> least and greatest random value."""
Draw = Callable[[Ranges], Iterator[Sample]]
"""Draws requests, endlessly, with these ranges and the default elsewhere."""


class Format(Protocol):
    """Interface of a format's module."""

    ENGINE: str
    """Whose artifact such a file is; it makes the golden answers."""
    KIND: str
    """Name of such a file, like `an ONNX file`."""

    def recognises(self, path: Path) -> bool:
        """Return True if a path looks like a file of this format."""

    def describe(self, path: Path) -> ModelDescription:
        """Read a file. Raises ArtifactError where it is none, or one that cannot be used."""

    def place(self, path: Path, version: Path) -> None:
        """Copy the file, and what belongs to it, to a version directory under the engine's own name for it."""


def unusable(path: Path, why: str, *, fix: str) -> ArtifactError:
    """The error for a file that cannot be imported."""
    return ArtifactError(f"{path} cannot be imported: {why}", fix=fix)


def shown(text: str) -> str:
    """A file's own words, quoted and not too long."""
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")


def held(model: Path, file: Path) -> bool:
    """Return True if a file lies in a model's folder once its links are followed.

    A download cache keeps links to a model and its weights, which lie beside each other elsewhere: that folder counts.
    """
    # realpath, because Path.resolve raises on links in a circle
    return any(Path(os.path.realpath(file)).is_relative_to(folder) for folder in folders_of(model))


def folders_of(model: Path) -> list[Path]:
    """The folders in which a model's files may lie: beside the file, and beside what it links to."""
    return [model.parent.resolve(), Path(os.path.realpath(model)).parent]
