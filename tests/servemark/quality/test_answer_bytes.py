"""Answers in a log that is not ours: what is read is what was written."""

import numpy as np

from servemark.quality.answer_bytes import from_bytes, to_bytes
from servemark.workload import Arrays, Tensor

TENSORS = (Tensor("ids", "INT32", (-1,)), Tensor("score", "FP32", (1,)), Tensor("masks", "UINT8", (2, 2)))


def test_outputs_of_any_shape_and_datatype_come_back() -> None:
    outputs: Arrays = {
        "ids": np.array([[3, 1, 2]], np.int32),
        "score": np.array([[0.5]], np.float32),
        "masks": np.array([[[1, 2], [3, 255]]], np.uint8),
    }
    found = from_bytes(to_bytes(outputs, TENSORS), TENSORS)
    for name, array in outputs.items():
        np.testing.assert_array_equal(found[name], array[0])
        assert found[name].dtype == array.dtype
