"""Inputs that nobody gave: random ones from a seed, or zeros, in the datatypes and sizes of a model."""

import math
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.documents.request import Inputs
from servemark.errors import InputDataError
from servemark.workload import Sample, Tensor

MAX_SAMPLE_BYTES = 1 << 30
"""Of generated inputs: metadata may name any size."""
SEED_STRINGS = string.ascii_letters + string.digits
_WHOLE_RANGE = ("UINT8", "INT8")
"""Pixels, and quantised values. Wider whole numbers are mostly ids and masks, of which every model takes 0 and 1."""


def random_samples(tensors: Sequence[Tensor], options: Inputs, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw an endless stream: floats from [0, 1), 8-bit numbers from all values, others from 0 and 1, or --input-range.

    Optional inputs are left out unless an option names them. Raises InputDataError for a size that is not known.
    """
    sized = _sized(tensors, options)
    while True:
        yield {tensor.name: _random(tensor, shape, options, rng) for tensor, shape in sized}


def zero_samples(tensors: Sequence[Tensor], options: Inputs) -> Iterator[Sample]:
    """Zeros and empty strings, endlessly. Raises InputDataError for a size that is not known."""
    sample: Sample = {tensor.name: _zeros(tensor, shape) for tensor, shape in _sized(tensors, options)}
    while True:
        yield sample


def _sized(tensors: Sequence[Tensor], options: Inputs) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The inputs to send, with their shapes. Raises InputDataError."""
    found = []
    for tensor in tensors:
        if tensor.optional and tensor.name not in {*options.shape, *options.input_range}:
            continue
        shape = options.shape.get(tensor.name, tensor.shape)
        if -1 in shape:
            raise InputDataError(
                f"input {tensor.name!r} {tensor.datatype}{list(tensor.shape)} has sizes that the request chooses",
                fix=f"--shape {tensor.name}:{','.join('1' if size == -1 else str(size) for size in shape)} with yours, "
                "or --input-data FILE",
            )
        found.append((tensor, shape))
    size = sum(math.prod(shape) * tensor.itemsize for tensor, shape in found)
    if size > MAX_SAMPLE_BYTES:
        raise InputDataError(
            f"one sample would take {size:,} bytes, the limit is {MAX_SAMPLE_BYTES:,}",
            fix="--shape with smaller sizes, or --input-data FILE",
        )
    if not found:
        raise InputDataError("every input of the model is optional", fix="name those to send: --shape or --input-range")
    return found


def _random(
    tensor: Tensor, shape: tuple[int, ...], options: Inputs, rng: np.random.Generator
) -> npt.NDArray[np.generic]:
    if tensor.datatype == "BYTES":
        return _strings(shape, options, rng)
    least, most = options.input_range.get(tensor.name, (0, 1))
    if tensor.dtype.kind == "f":
        least, most = float(least), float(most)
        return (least + (most - least) * rng.random(shape)).astype(tensor.dtype)
    if tensor.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if tensor.datatype in _WHOLE_RANGE and tensor.name not in options.input_range:
        limits = np.iinfo(tensor.dtype.name)
        least, most = limits.min, limits.max
    whole: Any = tensor.dtype
    drawn: npt.NDArray[np.generic] = rng.integers(int(least), int(most), shape, whole, endpoint=True)
    return drawn


def _strings(shape: tuple[int, ...], options: Inputs, rng: np.random.Generator) -> npt.NDArray[np.generic]:
    elements = np.empty(shape, np.object_)
    for index in np.ndindex(*shape):
        elements[index] = (
            "".join(rng.choice(list(SEED_STRINGS), options.string_length))
            if not options.string_data
            else options.string_data
        ).encode()
    return elements


def _zeros(tensor: Tensor, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    return np.full(shape, b"", np.object_) if tensor.datatype == "BYTES" else np.zeros(shape, tensor.dtype)
