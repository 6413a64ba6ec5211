"""Inputs as files of arrays: .npz, one sample each or rows of samples, and perf_analyzer's folder of raw tensors."""

import codecs
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from loadgen.inputs.conversion import Array, converted
from loadgen.inputs.json_file import of_raw
from servemark import files
from servemark.errors import InputDataError, parsing
from servemark.output import note
from servemark.workload import Sample, Tensor, Workload, read_npz


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
