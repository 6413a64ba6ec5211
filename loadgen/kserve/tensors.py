"""Values of tensors as the protocol carries them: raw bytes, or JSON.

Source: Open Inference Protocol, "Tensor Data"; Triton's "Binary Tensor Data Extension" for BYTES.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.errors import InputDataError, OptionError
from servemark.workload import Tensor, whole_numbers
from servemark.workload.tensor import NUMPY_DTYPES

Array = npt.NDArray[np.generic]
BYTES, BF16 = "BYTES", "BF16"
NOT_IN_JSON = ("FP16", BF16)
"""KServe v2 has no JSON for them (Open Inference Protocol, "Tensor Data")."""
_LENGTH = struct.Struct("<I")
_HALF = 0x7FFF
"""Constant that rounds FP32 to the nearest BF16; one more is added to round half to even."""


def to_bytes(array: Array, datatype: str) -> bytes:
    """Lay out an array row by row; each element of BYTES has its length before it."""
    if datatype == BYTES:
        elements = [bytes(element or b"") for element in array.ravel()]  # padding is 0
        return b"".join(_LENGTH.pack(len(element)) + element for element in elements)
    if datatype == BF16:
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        rounded = bits + np.uint32(_HALF) + (bits >> np.uint32(16) & np.uint32(1))
        kept = np.where(np.isfinite(array), rounded, bits) >> np.uint32(16)
        return kept.astype(np.uint16).tobytes()
    return np.ascontiguousarray(array).tobytes()


def from_bytes(raw: bytes, datatype: str, shape: Sequence[int]) -> Array:
    """Read what `to_bytes` lays out. Raises ValueError if it is not such a tensor."""
    if datatype == BYTES:
        elements = np.empty(_count(shape), np.object_)
        elements[:] = _elements(raw, len(elements))
        return elements.reshape(shape)
    if datatype == BF16:
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(shape)
    return np.frombuffer(raw, NUMPY_DTYPES[datatype]).reshape(shape)


def _elements(raw: bytes, count: int) -> list[bytes]:
    found: list[bytes] = []
    position = 0
    while position < len(raw) and len(found) < count:
        (length,) = _LENGTH.unpack_from(raw, position) if position + _LENGTH.size <= len(raw) else (len(raw),)
        position += _LENGTH.size + length
        found.append(raw[position - length : position])
    if position != len(raw) or len(found) != count:
        raise ValueError(f"{len(raw)} bytes are not {count} elements, each with its length before it")
    return found


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def raw_size_fits(size: int, tensor: Tensor, shape: Sequence[int]) -> bool:
    """Return True if a tensor of this shape may take this number of bytes."""
    least = _count(shape) * tensor.itemsize
    return size >= least if tensor.datatype == BYTES else size == least


def to_json(array: Array, datatype: str) -> list[Any]:
    """Make a flat list of an array's values. Raises OptionError, InputDataError for what JSON has not."""
    if datatype in NOT_IN_JSON:
        raise OptionError(f"the protocol has no JSON for {datatype}", fix="--input-tensor-format binary, or gRPC")
    if datatype == BYTES:
        try:
            return [bytes(element or b"").decode() for element in array.ravel()]
        except UnicodeDecodeError as error:
            raise InputDataError(
                f"JSON carries text, and an element of BYTES is none: {error.reason}",
                fix="--input-tensor-format binary, or gRPC",
            ) from error
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputDataError("JSON has no NaN and no infinity", fix="--input-tensor-format binary, or gRPC")
    values: list[Any] = array.ravel().tolist()
    return values


def from_json(data: Any, datatype: str, shape: Sequence[int]) -> Array:
    """Read an answer's values, nested or flat. Raises ValueError where they are none of the datatype."""
    if datatype == BYTES:
        elements = np.empty(_count(shape), np.object_)
        elements[:] = [
            element if isinstance(element, bytes) else str(element).encode()
            for element in np.ravel(np.array(data, np.object_))
        ]
        return elements.reshape(shape)
    kind = np.dtype(NUMPY_DTYPES[datatype])
    try:
        return (whole_numbers(data, datatype) if kind.kind in "iub" else np.array(data, kind)).reshape(shape)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"a value is not of {datatype}: {error}") from error


def json_count(data: Any, tensor: Tensor) -> int:
    """Count the elements of an answer's values. Raises ValueError, TypeError if they do not fit the datatype."""
    return int(np.array(data, tensor.dtype).size)
