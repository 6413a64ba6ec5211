"""Inputs in files: .npz, one sample each or rows of samples, and perf_analyzer's folder of raw tensors and its JSON.

Its JSON has steps of inputs, in one stream or several, and what the model must answer to them.
Source: perf_analyzer's documentation, "Input Data", "Real Input Data" and "Output Validation".
"""

import base64
import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.kserve.tensors import from_bytes
from servemark import files
from servemark.errors import MAX_QUOTED, InputDataError, parsing
from servemark.output import note
from servemark.workload import Sample, Tensor, Workload, elements, numbers, read_npz, whole_numbers

Array = npt.NDArray[np.generic]
FORMAT = 'perf_analyzer\'s input JSON, {"data": [{"INPUT": [1, 2, 3]}, ...]}'


def converted(where: str, values: Any, tensor: Tensor, shape: Sequence[int] | None = None) -> Array:
    """The values in the tensor's datatype and shape, or in the one that comes with them.

    Fractions are rounded to the tensor's precision. Raises InputDataError rather than wrap a number, cut one off, make
    it infinite or drop its imaginary part, and for another shape or number of elements.
    """
    wanted = _wanted(where, tensor, shape)
    with parsing(_of(where, tensor), InputDataError), np.errstate(invalid="ignore", over="ignore"):
        array = _strings(values) if tensor.datatype == "BYTES" else _numbers(where, values, tensor)
    return shaped(where, array, tensor, wanted)


def shaped(where: str, array: Array, tensor: Tensor, shape: Sequence[int] | None = None) -> Array:
    """An array of values in the tensor's shape; one varying size follows from the others. Raises InputDataError."""
    wanted = tuple(tensor.shape if shape is None else shape)
    if shape is None and tensor.fits(array.shape):
        return array
    try:
        return array.reshape(wanted)
    except ValueError:
        hint = "" if wanted.count(-1) < 2 else '; {"content": [...], "shape": [...]} says which'
        raise InputDataError(
            f"{where}: {tensor.name!r} has {array.size} elements, shape {list(wanted)} is expected{hint}"
        ) from None


def _wanted(where: str, tensor: Tensor, shape: Sequence[int] | None) -> tuple[int, ...] | None:
    """The shape that comes with values, which the tensor's has to allow. Raises InputDataError."""
    if shape is None:
        return None
    if not all(type(size) is int and size >= 0 for size in shape) or not tensor.fits(shape):
        raise InputDataError(
            f"{where}: shape {list(shape)} does not fit {tensor.name!r} {tensor.datatype}{list(tensor.shape)}",
            fix="give the shape of one sample, without the batch",
        )
    return tuple(shape)


def _numbers(where: str, values: Any, tensor: Tensor) -> Array:
    given = numbers(values)
    if given.dtype.kind == "c":
        raise InputDataError(
            f"{_of(where, tensor)} cannot be read: its values are complex ({given.dtype})",
            fix="give real numbers: the real part, the magnitude, or both parts along a dimension of their own",
        )
    if given.dtype.kind not in "buifO":  # numpy takes "1" for 1
        raise TypeError("its values are not numbers")
    if tensor.dtype.kind != "f":
        try:
            return whole_numbers(values, tensor.datatype)
        except ValueError as error:
            raise InputDataError(f"{_of(where, tensor)} cannot be read: {error}") from error
    try:
        array = given.astype(tensor.dtype)
    except OverflowError as error:  # of Python's, which has any size
        raise InputDataError(
            f"{_of(where, tensor)} cannot be read: a value is too large for {tensor.datatype}"
        ) from error
    if np.isinf(array).sum() != np.isinf(given.astype(np.float64)).sum():
        raise InputDataError(f"{_of(where, tensor)} cannot be read: a value is too large for {tensor.datatype}")
    return array


def _strings(values: Any) -> Array:
    """Elements of BYTES: text, or bytes as numpy's fixed-width strings hold them. Raises TypeError."""
    given = np.asarray(values)
    if given.dtype.kind not in "US":
        raise TypeError("its values are not strings")
    return elements(given)


def _of(where: str, tensor: Tensor) -> str:
    return f"{where}: {tensor.name!r} ({tensor.datatype})"


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
    wanted = _wanted(where, tensor, shape) or tensor.shape
    if tensor.datatype == "BYTES":
        return from_bytes(raw, tensor.datatype, [1 if size == -1 else size for size in wanted])
    return shaped(where, from_bytes(raw, tensor.datatype, [-1]), tensor, wanted)


def from_npz_folder(folder: Path, workload: Workload) -> Iterator[Sample]:
    """One sample in each file, arrays named like the inputs, without the batch dimension."""
    told = False
    for path in sorted(folder.glob("*.npz")):
        arrays = _read(path, workload)
        told = told or _tell_rounded(path, arrays, workload)
        yield {tensor.name: converted(str(path), arrays[tensor.name], tensor) for tensor in _held(arrays, workload)}


def from_npz(path: Path, workload: Workload) -> Iterator[Sample]:
    """One sample in each row: dimension 0 of every array counts the samples."""
    arrays = _read(path, workload)
    held = _held(arrays, workload)
    lengths = {tensor.name: len(arrays[tensor.name]) if arrays[tensor.name].ndim else 0 for tensor in held}
    if len({*lengths.values()}) > 1:
        rows = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputDataError(f"{path}: dimension 0 is the sample, and the arrays differ in it: {rows}")
    if not held:
        raise InputDataError(
            f"{path} holds no input of {workload.name}: {', '.join(arrays) or 'it is empty'}",
            fix=f"arrays named like the inputs: {', '.join(tensor.name for tensor in workload.inputs)}",
        )
    _tell_rounded(path, arrays, workload)
    for row in range(next(iter(lengths.values()))):
        yield {t.name: converted(f"{path}, row {row}", arrays[t.name][row, ...], t) for t in held}


def raw_files(folder: Path, workload: Workload) -> dict[str, Path] | None:
    """perf_analyzer's files of one sample, each named like an input; None where the folder holds no such file."""
    # Not folder / name: a server chooses the names.
    there = {path.name: path for path in folder.iterdir() if path.is_file()}
    found = {tensor.name: there[tensor.name] for tensor in workload.inputs if tensor.name in there}
    return found or None


def from_raw(files: Mapping[str, Path], workload: Workload) -> Iterator[Sample]:
    """One sample: raw bytes row by row, of BYTES one element in each line."""
    missing = [t.name for t in workload.inputs if not t.optional and t.name not in files]
    if missing:
        folder = next(iter(files.values())).parent
        raise InputDataError(f"{folder} has no file for input {missing[0]!r}; it has {', '.join(files)}")
    yield {t.name: _raw(files[t.name], t) for t in workload.inputs if t.name in files}


def _raw(path: Path, tensor: Tensor) -> Array:
    with parsing(path, InputDataError):
        data = files.content(path, files.DATA_BYTES)
        if tensor.datatype == "BYTES":
            return converted(str(path), data.removeprefix(codecs.BOM_UTF8).splitlines(), tensor)
        return of_raw(str(path), data, tensor)


def _read(path: Path, workload: Workload) -> Mapping[str, Array]:
    with parsing(path, InputDataError):
        arrays = read_npz(path)
    missing = [tensor.name for tensor in workload.inputs if tensor.name not in arrays and not tensor.optional]
    if missing:
        raise InputDataError(f"{path} has no array {missing[0]!r}; it holds {', '.join(arrays) or 'none'}")
    return arrays


def _held(arrays: Mapping[str, Array], workload: Workload) -> list[Tensor]:
    return [tensor for tensor in workload.inputs if tensor.name in arrays]


def _tell_rounded(path: Path, arrays: Mapping[str, Array], workload: Workload) -> bool:
    """Say that an array holds fractions which its input's shorter datatype cannot; exact ones need no word."""
    for tensor in _held(arrays, workload):
        given = arrays[tensor.name]
        if given.dtype.kind != "f" or tensor.dtype.kind != "f" or given.itemsize <= tensor.dtype.itemsize:
            continue
        with np.errstate(over="ignore"):
            exact = np.array_equal(given.astype(tensor.dtype).astype(given.dtype), given, equal_nan=True)
        if not exact:
            note(f"{path}: {tensor.name!r} is {given.dtype} and is rounded to {tensor.datatype}, the model's datatype")
            return True
    return False
