"""Values on the wire, against tritonclient's own serialisation, and JSON's."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from loadgen.kserve.tensors import from_bytes, from_json, raw_size_fits, to_bytes, to_json
from servemark.errors import InputDataError, OptionError
from servemark.workload import Tensor

WORDS = np.array([[b"", b"one"], ["zwölf".encode(), b"\xff\x00"]], np.object_)


def test_bytes_are_tritonclients() -> None:
    raw = to_bytes(WORDS, "BYTES")
    assert raw == serialize_byte_tensor(WORDS).item()
    assert from_bytes(raw, "BYTES", (2, 2)).tolist() == WORDS.tolist()
    assert deserialize_bytes_tensor(raw).tolist() == WORDS.ravel().tolist()


@pytest.mark.parametrize("raw", [b"\x01\0\0", b"\x02\0\0\0a", to_bytes(WORDS, "BYTES")[:-1], b""])
def test_bytes_that_are_no_elements(raw: bytes) -> None:
    with pytest.raises(ValueError, match="are not 4 elements"):
        from_bytes(raw, "BYTES", (2, 2))


def test_bf16_is_rounded_to_the_nearest_and_to_even() -> None:
    values = np.array([1.0, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, np.inf, -np.inf], np.float32)
    found = from_bytes(to_bytes(values, "BF16"), "BF16", values.shape)
    assert found.tolist() == [1.0, -2.5, 1.0, 1 + 2**-6, 1 + 2**-7, np.inf, -np.inf]
    assert np.isnan(from_bytes(to_bytes(np.array([np.nan], np.float32), "BF16"), "BF16", (1,)))
    drawn = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert to_bytes(drawn, "BF16") == drawn.astype(ml_dtypes.bfloat16).tobytes()


def test_a_size_fits_its_shape() -> None:
    assert raw_size_fits(6, Tensor("x", "BF16", (3,)), [1, 3])
    assert not raw_size_fits(12, Tensor("x", "BF16", (3,)), [1, 3])
    assert raw_size_fits(13, Tensor("x", "BYTES", (3,)), [1, 3])
    assert not raw_size_fits(11, Tensor("x", "BYTES", (3,)), [1, 3])


@pytest.mark.parametrize(
    ("array", "datatype"),
    [
        (np.array([[0.5, 1.25]], np.float32), "FP32"),
        (np.array([2**64 - 1], np.uint64), "UINT64"),
        (np.array([True, False]), "BOOL"),
        (np.array([b"a", "ü".encode()], np.object_), "BYTES"),
    ],
)
def test_json_and_back(array: Any, datatype: str) -> None:
    assert from_json(to_json(array, datatype), datatype, array.shape).tolist() == array.tolist()


def test_what_json_has_not() -> None:
    with pytest.raises(OptionError, match="no JSON for FP16"):
        to_json(np.zeros(1, np.float16), "FP16")
    with pytest.raises(InputDataError, match="no NaN"):
        to_json(np.array([np.nan], np.float32), "FP32")
    with pytest.raises(InputDataError, match="carries text"):
        to_json(np.array([b"\xff"], np.object_), "BYTES")
