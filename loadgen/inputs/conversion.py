"""Values that a user gives, in the datatype and shape of an input or output."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.errors import InputDataError, parsing
from servemark.workload import Tensor, elements, numbers, whole_numbers

Array = npt.NDArray[np.generic]


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
