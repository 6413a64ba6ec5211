"""Answers as bytes, for MLPerf LoadGen's log."""

import io
from collections.abc import Sequence

import numpy as np

from servemark.workload import Arrays, Sample, Tensor


def to_bytes(outputs: Arrays, tensors: Sequence[Tensor]) -> bytes:
    """Write the first row of each output, one .npy after the other."""
    content = io.BytesIO()
    for tensor in tensors:
        np.save(content, outputs[tensor.name][0], allow_pickle=False)
    return content.getvalue()


def from_bytes(content: bytes, tensors: Sequence[Tensor]) -> Sample:
    """Read the outputs again. Raises ValueError, EOFError."""
    file = io.BytesIO(content)
    return {tensor.name: np.load(file, allow_pickle=False) for tensor in tensors}
