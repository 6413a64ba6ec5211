"""Sources that --input-data names, and the right outputs that come with it."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.inputs.sources import golden_of, samples_of
from servemark.errors import InputDataError
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


def test_a_range_is_not_dropped_in_silence() -> None:
    with pytest.raises(InputDataError, match=r"not for --input-data synthetic\n.*add --input-data random"):
        drawn("--input-range", "seq:5:9")


def test_one_npz_file_and_a_folder_of_raw_tensors(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", user=np.array([[1], [2]]), seq=np.zeros((2, 5)))
    assert [s["user"].tolist() for s in drawn("--input-data", str(tmp_path / "rows.npz"))] == [[1], [2]]
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
