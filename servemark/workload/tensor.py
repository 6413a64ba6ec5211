"""A model's inputs and outputs: names, datatypes, shapes and batches of samples; and the interface of what runs it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from servemark import files
from servemark.errors import InputDataError
from servemark.quantities import EXACT_FLOATS, UINT64

Arrays = Mapping[str, npt.NDArray[np.generic]]
"""A batch: tensor name -> array, the batch as dimension 0."""
Sample = Mapping[str, npt.NDArray[np.generic]]
"""One request's inputs, without the batch dimension: tensor name -> array of the tensor's shape."""

NUMPY_DTYPES: Mapping[str, npt.DTypeLike] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "BF16": np.float32,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
"""KServe v2 datatypes (Open Inference Protocol, "Tensor Data Types") and the numpy types of their values.

numpy has no BF16: its values are FP32's that only lose digits on the wire. An element of BYTES is a `bytes`.
"""
_BYTES_ON_THE_WIRE = {"BF16": 2, "BYTES": 4}
"""Bytes of an element if they differ from the array's: BYTES take at least 4, the length before each element."""


_NPY: Any = np.lib.format  # has no types
_NpzFile: Any = np.lib.npyio.NpzFile  # its types ask for text
_NPY_HEADERS = {(1, 0): _NPY.read_array_header_1_0, (2, 0): _NPY.read_array_header_2_0}
MAX_UNPACKED_BYTES = 4 << 30
"""Limit for the arrays in one file, because a small archive may hold any number of zeros."""


@dataclass(frozen=True)
class Tensor:
    """A named input or output. `shape` leaves out the batch dimension, which is always dimension 0 and dynamic.

    A size of -1 varies from request to request (the frames of an utterance); all samples of one batch share it. A
    request may leave an `optional` input out.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Numpy dtype of `datatype`."""
        return np.dtype(NUMPY_DTYPES[self.datatype])

    @property
    def itemsize(self) -> int:
        """Bytes of an element on the wire; the least for BYTES."""
        return _BYTES_ON_THE_WIRE.get(self.datatype, self.dtype.itemsize)

    @property
    def variable_axes(self) -> tuple[int, ...]:
        """Axes without a fixed size; the batch is axis 0."""
        return tuple(axis for axis, size in enumerate(self.shape, 1) if size == -1)

    def fits(self, shape: Sequence[int]) -> bool:
        """Return True if a sample of this shape, without the batch dimension, fits this tensor."""
        return len(shape) == len(self.shape) and all(
            size in {-1, got} for size, got in zip(self.shape, shape, strict=True)
        )


def read_npz(path: Path) -> Arrays:
    """Read all arrays of a file. Raises numpy's errors if it is damaged, BadZipFile if it is not an archive."""
    # np.load would read a file of one array, however large it says that it is.
    with files.opened(path) as content, _NpzFile(content) as file:
        size = sum(member.file_size for member in file.zip.infolist())
        if size > MAX_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to {size} bytes, the limit is {MAX_UNPACKED_BYTES}")
        for member in file.zip.infolist():
            _require_whole(file.zip, member)
        return {name: file[name] for name in file.files}


def write_npz(path: Path, arrays: Arrays) -> None:
    """Write arrays to a file; strings as numpy's of fixed width, since objects would be code. `elements` reads them."""
    with ZipFile(path, "w") as archive:  # numpy's savez takes names for its options: file, allow_pickle
        for name, array in arrays.items():
            kept = array.astype(np.bytes_) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _NPY.write_array(member, kept, allow_pickle=False)


def numbers(values: Any) -> npt.NDArray[np.generic]:
    """Make an array of an array, or of nested lists as JSON has them; whole numbers stay exact.

    numpy alone makes float64 of whole numbers of which one is negative and another beyond int64, or of one among
    fractions. Such an array has dtype object here. Raises TypeError where a value is not a number.
    """
    found = np.asarray(values)
    if isinstance(values, np.ndarray) or found.dtype.kind not in "fO" or not found.size:
        return found
    each: Any = np.asarray(values, np.object_)
    kinds = {*map(type, each.flat)}
    if not kinds <= {int, bool, float}:
        raise TypeError("its values are not numbers")
    if kinds == {float}:
        return found
    is_unsigned = float not in kinds and min(each.flat) >= 0 and max(each.flat) <= UINT64
    exact: npt.NDArray[np.generic] = each.astype(np.uint64) if is_unsigned else each
    return exact


def whole_numbers(values: Any, datatype: str) -> npt.NDArray[np.generic]:
    """Make an array of a datatype of whole numbers, as `numbers` does. Raises ValueError for a number it has not.

    A float from 2**53 on in a list is not taken: the number that somebody wrote may have been its neighbour.
    """
    array: Any = numbers(values)
    dtype = np.dtype(NUMPY_DTYPES[datatype])
    written: list[Any] = []
    if array.dtype.kind in "fO":
        written = [each for each in array.flat if isinstance(each, float | np.floating)]
    largest = math.inf if isinstance(values, np.ndarray) else EXACT_FLOATS
    wrong = next((each for each in written if not each.is_integer() or abs(each) >= largest), None)
    if wrong is None and array.size:
        limits = None if dtype.kind == "b" else np.iinfo(dtype.name)
        least, most = (limits.min, limits.max) if limits else (0, 1)
        wrong = next((each for each in (array.min(), array.max()) if not least <= int(each) <= most), None)
    if wrong is not None:
        raise ValueError(f"{wrong!s} is not {datatype}")
    found: npt.NDArray[np.generic] = array.astype(dtype)
    return found


def elements(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Convert numpy's strings of fixed width to elements of BYTES; return any other array as it is."""
    if array.dtype.kind not in "US":
        return array
    texts: Any = array
    found: npt.NDArray[np.generic] = (np.char.encode(texts) if array.dtype.kind == "U" else texts).astype(np.object_)
    return found


def _require_whole(archive: ZipFile, member: ZipInfo) -> None:
    """Check that a member is as long as its array, whose memory numpy sets aside first. Raises as `read_npz`."""
    with archive.open(member) as file:
        header = _NPY_HEADERS[_NPY.read_magic(file)]
        shape, _, dtype = header(file)
    if math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{member.filename} holds {member.file_size} bytes, less than its shape {shape} takes")


def stack(samples: Sequence[Sample], tensors: Sequence[Tensor]) -> Arrays:
    """Make one batch of samples; if a size varies, shorter samples are padded with zeros to the longest.

    An optional input is in all of them or in none. Raises InputDataError.
    """
    batch = {}
    for tensor in tensors:
        holding = sum(tensor.name in sample for sample in samples)
        if tensor.optional and not holding:
            continue
        if holding < len(samples):
            raise InputDataError(
                f"{holding} of a batch's {len(samples)} samples have {tensor.name!r}: all must have it, or none",
                fix="--batch-size 1, or give it to every sample",
            )
        arrays = [sample[tensor.name] for sample in samples]
        if tensor.variable_axes:
            shape = np.max([array.shape for array in arrays], axis=0)
            arrays = [
                np.pad(array, [(0, most - size) for most, size in zip(shape, array.shape, strict=True)])
                for array in arrays
            ]
        batch[tensor.name] = np.stack(arrays)
    return batch


class Engine(Protocol):
    """A model loaded on one device. Calls of `run` must not overlap."""

    @property
    def name(self) -> str:
        """Triton's backend name, such as `onnxruntime`."""

    @property
    def device(self) -> str:
        """Return the device: `cpu` or `cuda:N`."""

    @property
    def provider(self) -> str:
        """Return the provider, such as `CUDAExecutionProvider`; read back from the engine, not from the request."""

    @property
    def scalars(self) -> Collection[str]:
        """Return the inputs without a dimension; no input of a model with batches is one."""

    def run(self, inputs: Arrays) -> Arrays:
        """Answer one batch: tensor name -> array with the batch as dimension 0, both ways."""
