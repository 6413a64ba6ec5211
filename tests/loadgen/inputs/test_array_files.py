"""Rows of one .npz, and perf_analyzer's folder of raw tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.array_files import from_npz, from_npz_folder, from_raw, raw_files
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


@pytest.mark.parametrize(("value", "told"), [(0.1, True), (0.5, False), (np.nan, False)])
@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_float64_that_loses_digits_is_rounded_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, value: float, told: bool
) -> None:
    x = np.array([[[value, 1]]] * 3, kind)
    np.savez(tmp_path / "in.npz", x=x, text=np.repeat(ARRAYS["text"][:1], 3, axis=0))
    assert len(list(from_npz(tmp_path / "in.npz", MODEL))) == 3
    words = f"{tmp_path}/in.npz: 'x' is float64 and is rounded to FP32, the model's datatype\n"
    assert capsys.readouterr().err == (words if told and kind == "f8" else "")


def test_a_folder_of_float64_is_spoken_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=np.array([[0.1, number]]), text=ARRAYS["text"][0])
    assert len(list(from_npz_folder(tmp_path, MODEL))) == 3
    assert capsys.readouterr().err.count("rounded to FP32") == 1


@pytest.mark.parametrize("kind", ["c8", "c16"])
@pytest.mark.parametrize("values", [[[[1 + 2j, 0]]], [[[1 + 0j, 0]]]])
@pytest.mark.parametrize("name", ["x", "w"])
def test_complex_values_are_refused(tmp_path: Path, name: str, values: list[Any], kind: str) -> None:
    """Also those without an imaginary part: the array was meant for something else."""
    arrays = {"x": np.zeros((1, 1, 2)), "text": ARRAYS["text"][:1], name: np.array(values, kind)}
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(InputDataError, match=rf"{name!r} .* its values are complex \(complex") as caught:
        list(from_npz(tmp_path / "in.npz", MODEL))
    assert "magnitude" in str(caught.value.fix)


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
