"""Sources that --input-data names, and the right outputs that come with it."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.sources import golden_of, random_samples, samples_of, zero_samples
from servemark.documents.request import Inputs
from servemark.errors import InputDataError
from servemark.workload import Tensor
from servemark.workload.tensor import NUMPY_DTYPES
from tests.support.load_config import config

STEP = {"user": [3], "seq": [1, 2, 3, 4, 5]}
RIGHT = {"items": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}


def drawn(*flags: str, count: int = 4) -> list[Any]:
    return list(islice(samples_of(config("ranking_tiny", *flags)), count))


def test_random_and_zero_stand_for_any_workload_s_own() -> None:
    random = drawn("--input-data", "random", "--input-range", "seq:5:9")
    assert all(5 <= value <= 9 for sample in random for value in sample["seq"])
    assert {value for sample in random for value in sample["user"]} <= {0, 1}
    assert not any(sample["seq"].any() for sample in drawn("--input-data", "zero"))
    assert (
        drawn("--input-data", "random", "--seed", "3")[0]["seq"].tolist()
        == drawn("--input-data", "random", "--seed", "3")[0]["seq"].tolist()
    )


def test_a_file_without_a_sample_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"data": []}')
    with pytest.raises(InputDataError, match="holds no sample"):
        drawn("--input-data", str(tmp_path / "in.json"))


def test_a_range_is_not_dropped_in_silence() -> None:
    with pytest.raises(InputDataError, match=r"not for --input-data synthetic\n.*add --input-data random"):
        drawn("--input-range", "seq:5:9")


def test_npz_files_and_a_folder_of_raw_tensors(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", user=np.array([[1], [2]]), seq=np.zeros((2, 5)))
    assert [s["user"].tolist() for s in drawn("--input-data", str(tmp_path / "rows.npz"))] == [[1], [2]]
    for name, user in (("b", 2), ("a", 1)):
        np.savez(tmp_path / f"{name}.npz", user=np.array([user]), seq=np.arange(5), extra=np.zeros(3))
    (tmp_path / "rows.npz").unlink()
    assert [s["user"].tolist() for s in drawn("--input-data", str(tmp_path))] == [[1], [2]]
    (tmp_path / "raw").mkdir()
    for name, values in STEP.items():
        (tmp_path / "raw" / name).write_bytes(np.array(values, "i4").tobytes())
    assert [s["seq"].tolist() for s in drawn("--input-data", str(tmp_path / "raw"))] == [[1, 2, 3, 4, 5]]


def with_answers(folder: Path, answers: list[Any], data: list[Any] | None = None) -> str:
    path = folder / "in.json"
    path.write_text(json.dumps({"data": data or [STEP] * len(answers), "validation_data": answers}))
    return str(path)


def test_validation_data_are_golden_outputs(tmp_path: Path) -> None:
    golden = golden_of(config("ranking_tiny", "--input-data", with_answers(tmp_path, [RIGHT, RIGHT])))
    assert golden is not None
    assert (golden.rows, golden.origin) == (2, "validation_data")
    assert golden.outputs["items"].shape == (2, 10)
    assert golden.digests[0][0] == "user"
    assert golden_of(config("ranking_tiny", "--model-repository", str(tmp_path))) is None


def test_steps_that_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match=r"data\[1\] differs from the first step"):
        golden_of(config("ranking_tiny", "--input-data", with_answers(tmp_path, [RIGHT, {}])))
    with pytest.raises(InputDataError, match="names no output"):
        golden_of(config("ranking_tiny", "--input-data", with_answers(tmp_path, [{}])))


EVERY = [Tensor(name, name, (500,)) for name in NUMPY_DTYPES]
USUAL = Inputs()


def draw(tensors: list[Tensor], options: Inputs = USUAL, seed: int = 0, count: int = 3) -> list[Any]:
    return list(islice(random_samples(tensors, options, np.random.default_rng(seed)), count))


def test_every_datatype_has_values_of_its_own_and_repeats_by_seed() -> None:
    first, again, other = draw(EVERY), draw(EVERY), draw(EVERY, seed=1)
    for tensor in EVERY:
        array = first[0][tensor.name]
        assert (array.dtype, array.shape) == (tensor.dtype, (500,))
        assert array.tolist() == again[0][tensor.name].tolist()
        assert array.tolist() not in (first[1][tensor.name].tolist(), other[0][tensor.name].tolist())
        assert next(zero_samples([tensor], USUAL))[tensor.name].astype(bool).sum() == 0
    assert {*first[0]["INT64"].tolist()} == {0, 1}
    assert 0 <= first[0]["FP16"].min() < 0.1
    assert 0.9 < first[0]["FP16"].max() <= 1
    assert first[0]["UINT8"].max() > 200
    assert first[0]["INT8"].min() < -100
    assert {len(text) for text in first[0]["BYTES"]} == {128}


def test_options_say_which_values() -> None:
    ids, text, size = Tensor("ids", "INT64", (1000,)), Tensor("text", "BYTES", (2,)), Tensor("x", "FP32", (-1, 3))
    options = Inputs(shape={"x": (5, 3)}, input_range={"ids": (7, 9), "x": (-2.0, -1.0)}, string_data="hello")
    [sample] = draw([ids, text, size], options, count=1)
    assert {*sample["ids"].tolist()} == {7, 8, 9}
    assert sample["text"].tolist() == [b"hello", b"hello"]
    assert sample["x"].shape == (5, 3)
    assert -2 <= sample["x"].min() <= sample["x"].max() <= -1
    assert [len(text) for text in draw([text], Inputs(string_length=3))[0]["text"]] == [3, 3]
    largest = Tensor("u", "UINT64", (9,))
    for number in (2**63, 2**64 - 1):
        assert draw([largest], Inputs(input_range={"u": (number, number)}))[0]["u"].tolist() == [number] * 9


def test_optional_inputs_are_left_out_unless_they_are_named() -> None:
    tensors = [Tensor("x", "FP32", (1,)), Tensor("mask", "INT32", (-1,), optional=True)]
    assert [*draw(tensors)[0]] == ["x"]
    assert draw(tensors, Inputs(shape={"mask": (2,)}))[0]["mask"].shape == (2,)
    with pytest.raises(InputDataError, match="every input of the model is optional"):
        draw(tensors[1:])


def test_sizes_that_nobody_gave_and_sizes_that_nobody_can_mean() -> None:
    with pytest.raises(InputDataError, match=r"'x' FP32\[-1, 3\] has sizes.*\n.*--shape x:1,3 with yours"):
        draw([Tensor("x", "FP32", (-1, 3))])
    with pytest.raises(InputDataError, match="one sample would take 4,000,000,000,000 bytes"):
        next(zero_samples([Tensor("x", "FP32", (10**12,))], USUAL))
