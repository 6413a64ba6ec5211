"""Rows of one .npz, and perf_analyzer's folder of raw tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.array_files import from_npz, from_raw, raw_files
from servemark.errors import InputDataError
from servemark.workload import Tensor
from tests.support.any_workload import any_workload

MODEL = any_workload(
    inputs=(Tensor("x", "FP32", (-1, 2)), Tensor("text", "BYTES", (2,)), Tensor("w", "INT8", (1,), optional=True)),
    outputs=(),
)
ARRAYS: dict[str, Any] = {"x": np.arange(8.0).reshape(2, 2, 2), "text": np.array([["a", "b"], ["ü", ""]])}


def test_each_row_is_a_sample(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **ARRAYS)
    first, second = from_npz(tmp_path / "in.npz", MODEL)
    assert first["x"].tolist() == [[0, 1], [2, 3]]
    assert first["x"].dtype == np.float32
    assert second["text"].tolist() == ["ü".encode(), b""]
    assert "w" not in first


def test_arrays_of_other_lengths_or_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **{**ARRAYS, "x": np.zeros((3, 2, 2))})
    with pytest.raises(InputDataError, match="differ in it: x 3, text 2"):
        list(from_npz(tmp_path / "in.npz", MODEL))
    np.savez(tmp_path / "in.npz", x=ARRAYS["x"])
    with pytest.raises(InputDataError, match="has no array 'text'; it holds x"):
        list(from_npz(tmp_path / "in.npz", MODEL))


def test_fractions_are_rounded_and_none_becomes_infinite(tmp_path: Path) -> None:
    text = {"text": ARRAYS["text"][:1]}
    np.savez(tmp_path / "in.npz", x=np.array([[[0.1, np.inf]]]), **text)
    [sample] = from_npz(tmp_path / "in.npz", MODEL)
    assert sample["x"].tolist() == [[np.float32(0.1), np.inf]]
    np.savez(tmp_path / "in.npz", x=np.array([[[0.1, 1e300]]]), **text)
    with pytest.raises(InputDataError, match=r"'x' \(FP32\) cannot be read: a value is too large for FP32"):
        list(from_npz(tmp_path / "in.npz", MODEL))


def test_raw_files_are_one_sample_and_strings_are_lines(tmp_path: Path) -> None:
    assert raw_files(tmp_path, MODEL) is None
    (tmp_path / "x").write_bytes(np.arange(4, dtype="f4").tobytes())
    with pytest.raises(InputDataError, match="has no file for input 'text'; it has x"):
        list(from_raw(raw_files(tmp_path, MODEL) or {}, MODEL))
    (tmp_path / "text").write_text("one\nzwölf\n")
    [sample] = from_raw(raw_files(tmp_path, MODEL) or {}, MODEL)
    assert sample["x"].tolist() == [[0, 1], [2, 3]]
    assert sample["text"].tolist() == [b"one", "zwölf".encode()]
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(InputDataError, match="x cannot be read"):
        list(from_raw(raw_files(tmp_path, MODEL) or {}, MODEL))


def test_a_server_s_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1234")
    (tmp_path / "in").mkdir()
    assert raw_files(tmp_path / "in", any_workload((Tensor("../secret", "FP32", (1,)),), ())) is None
