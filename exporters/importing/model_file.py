"""Description of a model file, whatever its format, and what the user adds where the file leaves sizes open."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from servemark.errors import ArtifactError, OptionError
from servemark.workload import Sample, Workload

OPEN = -1
"""A size that the file leaves open."""
DEFAULT_MAX_BATCH = 32
NONE = 0
"""Stands for the first size of a tensor without dimensions."""
EXAMPLE = 224
"""Size that an error shows in the place of one that the file leaves open."""
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


@dataclass(frozen=True)
class Wishes:
    """Facts of a model that its file lacks and the user gives."""

    requests: Callable[[Workload, Ranges], Iterator[Sample]]
    """Makes requests for inputs with these bounds."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Input -> its sizes without the batch."""
    ranges: Ranges = field(default_factory=dict)
    max_batch: int | None = None
    """Most samples in a request; 0: its tensors have no batch dimension. None: what the file shows."""
    requests_from: str | None = None
    """Path of the user's own data; None: requests are random."""
    command: Sequence[str] = ("servemark", "import", "PATH")
    """The user's command, which the fix of an error completes."""


def largest_batch(path: Path, found: ModelDescription, wishes: Wishes) -> tuple[int, str | None]:
    """The largest batch, 0 without a batch dimension, and why a request is one sample. Raises ArtifactError."""
    ports = (*found.inputs, *found.outputs)
    if not found.inputs:
        raise unusable(path, "it has no input", fix="a model that takes nothing needs no load")
    firsts = {port.sizes[0] if port.sizes else NONE for port in ports}
    if wishes.max_batch == 0 or (wishes.max_batch is None and not firsts <= {OPEN, 1}):
        scalars = [written(port) for port in ports if not port.sizes]
        return 0, f"{scalars[0]} has no dimension for a batch" if scalars else "no batch dimension"
    if not firsts <= {OPEN, 1}:
        raise unusable(
            path,
            f"its first dimension is not a batch: {', '.join(map(written, ports))}",
            fix="--max-batch 0: a request is then one sample; or export it with a batch (torch: dynamic_shapes)",
        )
    if 1 in firsts:
        ones = ", ".join(written(port) for port in ports if port.sizes[0] == 1)
        return 1, f"the file fixes 1 as the first size of {ones}"
    most = DEFAULT_MAX_BATCH if wishes.max_batch is None else wishes.max_batch
    return min(most, found.max_batch or most), None


def inputs_of(path: Path, found: ModelDescription, wishes: Wishes, *, batched: bool) -> list[dict[str, Any]]:
    """The inputs with the sizes of a sample. Raises OptionError."""
    names = [port.name for port in found.inputs]
    for flag, named in (("--shape", wishes.shapes), ("--input-range", wishes.ranges)):
        if unknown := [name for name in named if name not in names]:
            raise OptionError(f"{flag} names {unknown[0]!r}, which is not an input", fix=f"one of: {', '.join(names)}")
    inputs = []
    # Beside a scalar no samples can be joined: the batch that other inputs leave open is 1.
    alone = not batched and wishes.max_batch is None and any(not port.sizes for port in found.inputs)
    for port in found.inputs:
        shape = _shape(port, wishes.shapes.get(port.name), batched=batched)
        if alone and len(shape) > 1 and shape[0] == OPEN:
            shape[0] = 1
        described = {"name": port.name, "datatype": port.datatype, "shape": shape}
        bounds = wishes.ranges.get(port.name) or found.ranges.get(port.name)
        inputs.append({**described, "range": list(bounds)} if bounds else described)
    if still := [port for port, each in zip(found.inputs, inputs, strict=True) if OPEN in each["shape"]]:
        flags = [word for port in still for word in ("--shape", _example(port, batched=batched))]
        note = f"  # {EXAMPLE} stands for your sizes"
        ports = (*found.inputs, *found.outputs)
        if not batched and OPEN in {port.sizes[0] for port in still} and all(port.sizes for port in ports):
            note += "; --max-batch 32 if the first is the batch"
        raise OptionError(
            f"{path} leaves sizes open: {', '.join(map(written, still))}",
            fix=shlex.join([*wishes.command, *flags]) + note,
        )
    return inputs


def _shape(port: TensorInfo, wished: tuple[int, ...] | None, *, batched: bool) -> list[int]:
    """The sizes of an input's sample. Raises OptionError where the wish does not fit."""
    sizes = port.sizes[1 if batched else 0 :]
    if wished is None:
        return list(sizes)
    if len(wished) != len(sizes) or any(size not in {OPEN, wish} for size, wish in zip(sizes, wished, strict=True)):
        raise OptionError(
            f"--shape {port.name}:{','.join(map(str, wished))} does not fit {written(port)}",
            fix=f"{'leave out the batch, and ' if batched else ''}repeat what is fixed: "
            f"--shape {_example(port, batched=batched)}",
        )
    return list(wished)


def written(port: TensorInfo) -> str:
    """A tensor as a person reads it: `x FP32[?,6]`."""
    return f"{port.name} {port.datatype}[{','.join('?' if size == OPEN else str(size) for size in port.sizes)}]"


def _example(port: TensorInfo, *, batched: bool) -> str:
    sizes = port.sizes[1 if batched else 0 :]
    return f"{port.name}:{','.join(str(EXAMPLE if size == OPEN else size) for size in sizes)}"
