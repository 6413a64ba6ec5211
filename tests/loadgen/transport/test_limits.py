"""The longest answer holds every right one, however its server spells it."""

import json

import numpy as np
import pytest

from loadgen.transport.limits import max_message_bytes
from servemark.workload import Tensor

WORST = {"BOOL": False, "INT8": -128, "FP16": -1.2345678901234567e-300, "FP32": -1.2345678901234567e-300}


@pytest.mark.parametrize("datatype", WORST)
def test_json_fits(datatype: str) -> None:
    text = json.dumps([WORST[datatype]] * 3000, separators=(",", ":"))
    tensors = [Tensor("y", datatype, (1000,))]
    assert len(text) < max_message_bytes(tensors, 3) < 40 * len(text) + (1 << 20)


def test_a_size_that_varies_counts_as_much_as_is_usual() -> None:
    varying, fixed = (max_message_bytes([Tensor("y", "FP32", (size, 29))], 2) for size in (-1, 4096))
    assert varying == fixed == 16 * 2 * 4096 * 29 * np.dtype("f4").itemsize + (1 << 20)
