"""perf_analyzer's input JSON: steps of inputs, in one stream or several, and what the model must answer to them.

Source: perf_analyzer's documentation, "Input Data", "Real Input Data" and "Output Validation".
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.inputs.conversion import Array, converted, shaped
from loadgen.kserve.tensors.values import from_bytes
from servemark import files
from servemark.errors import MAX_QUOTED, InputDataError, parsing
from servemark.workload import Sample, Tensor, Workload

FORMAT = 'perf_analyzer\'s input JSON, {"data": [{"INPUT": [1, 2, 3]}, ...]}'


@dataclass(frozen=True)
class Step:
    """One request's inputs and, where the file says them, its right outputs."""

    where: str
    inputs: Sample
    outputs: Sample | None


def read_steps(path: Path, workload: Workload) -> Iterator[Step]:
    """Read the steps of all streams, one stream after the other. Raises InputDataError with the step's place."""
    with parsing(path, InputDataError, fix=FORMAT):
        document = json.loads(files.text(path, files.DATA_BYTES))
        steps = list(_flat(f"{path}, data", document["data"]))
        validation = document.get("validation_data")
        answers = None if validation is None else list(_flat(f"{path}, validation_data", validation))
    if answers is not None and len(answers) != len(steps):
        raise InputDataError(f"{path} has {len(steps)} steps of data and {len(answers)} of validation_data")
    for number, (where, step) in enumerate(steps):
        outputs = answers and _arrays(*answers[number], workload.outputs, "output")
        yield Step(where, _arrays(where, step, workload.inputs, "input"), outputs or None)


def has_validation(path: Path) -> bool:
    """Return True if a file holds right outputs; damage is reported when the file is read."""
    try:
        if path.suffix != ".json":
            return False
        return json.loads(files.text(path, files.DATA_BYTES)).get("validation_data") is not None
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _flat(where: str, listed: Any) -> Iterator[tuple[str, Any]]:
    """Each step with its place: the file has one list, or a list of streams."""
    for number, step in enumerate(listed):
        if isinstance(step, list):
            yield from ((f"{where}[{number}][{index}]", each) for index, each in enumerate(step))
        else:
            yield f"{where}[{number}]", step


def _arrays(where: str, step: Any, tensors: Sequence[Tensor], kind: str) -> dict[str, Array]:
    """The tensors of one step. Raises InputDataError."""
    if not isinstance(step, dict):
        raise InputDataError(f"{where} is not an object", fix=FORMAT)
    known = {tensor.name: tensor for tensor in tensors}
    if unknown := [name for name in step if name not in known]:
        raise InputDataError(f"{where} has {unknown[0][:MAX_QUOTED]!r}, which is not an {kind}: {', '.join(known)}")
    missing = [tensor.name for tensor in tensors if tensor.name not in step and not tensor.optional]
    if kind == "input" and missing:
        raise InputDataError(f"{where}: input {missing[0]!r} is missing; it has {', '.join(step) or 'none'}")
    return {name: _array(where, value, known[name]) for name, value in step.items()}


def _array(where: str, value: Any, tensor: Tensor) -> Array:
    """One tensor: values, or an object with `content` or `b64`, and perhaps `shape`. Raises InputDataError."""
    if not isinstance(value, Mapping):
        return converted(where, value, tensor)
    shape, content = value.get("shape"), value.get("content", value)
    if shape is not None and not isinstance(shape, list):
        raise InputDataError(f"{where}: the shape of {tensor.name!r} is {shape!r}, no list")
    if not isinstance(content, Mapping):
        return converted(where, content, tensor, shape)
    if not isinstance(content.get("b64"), str):
        raise InputDataError(f"{where}: {tensor.name!r} has neither content nor b64", fix=FORMAT)
    with parsing(f"{where}: b64 of {tensor.name!r}", InputDataError):
        return of_raw(where, base64.b64decode(content["b64"], validate=True), tensor, shape)


def of_raw(where: str, raw: bytes, tensor: Tensor, shape: Sequence[int] | None = None) -> Array:
    """A tensor of its bytes, as the protocol lays them out. Raises InputDataError, ValueError."""
    wanted = tensor.shape if shape is None else tuple(shape)
    if not tensor.fits(wanted) and shape is not None:
        raise InputDataError(f"{where}: shape {list(wanted)} does not fit {tensor.name!r} {list(tensor.shape)}")
    if tensor.datatype == "BYTES":
        return from_bytes(raw, tensor.datatype, [1 if size == -1 else size for size in wanted])
    return shaped(where, from_bytes(raw, tensor.datatype, [-1]), tensor, wanted)
