"""MLPerf's two modes on one golden server: performance, and accuracy, whose log is scored by the same code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.mlperf import official_loadgen
from servemark.errors import InputDataError
from servemark.figures.registry import count_of
from servemark.runs import accuracy_log
from servemark.runs.accuracy_log import from_bytes, to_bytes
from servemark.workload import Arrays, Tensor
from tests.support.command_line import Servemark
from tests.support.digits import COUNT, RIGHT, flags, lay_out, served
from tests.support.documents import validated
from tests.support.locust_run import the_result

MLPERF = ("--scenario", "SingleStream", "--min-duration", "0.3", "--min-queries", "5")
TENSORS = (Tensor("ids", "INT32", (-1,)), Tensor("score", "FP32", (1,)), Tensor("masks", "UINT8", (2, 2)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("data"))


def test_both_modes_run_and_the_accuracy_log_is_scored(data: Path, tmp_path: Path, servemark: Servemark) -> None:
    with served(data) as server:
        servemark(*flags(server, data, tmp_path / "p", *MLPERF, command="mlperf"))
        before = len(server.requests())
        done = servemark(*flags(server, data, tmp_path / "a", *MLPERF, "--quality", command="mlperf"))
        requests = len(server.requests()) - before
        quality = servemark(*flags(server, data, tmp_path / "q"))
    performance, accuracy, whole = (validated(the_result(tmp_path / name)) for name in "paq")
    assert performance["loadgen"]["validity"] in {"VALID", "INVALID"}
    assert "quality" not in performance["details"]
    score = accuracy["details"]["quality"]
    assert (done.code, quality.code) == (0, 0)
    assert score["figures"][0]["value"] == RIGHT / COUNT
    assert score["data"] == whole["quality"]["data"]  # the same digits, the same labels
    assert score["figures"] == whole["quality"]["figures"]
    assert count_of(accuracy, "requests.answered") == COUNT
    assert requests > COUNT  # the probe's too
    assert "quality: accuracy 0.7500" in done.out


def test_a_failed_sample_is_wrong(
    data: Path, tmp_path: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    from servemark.runs import mlperf

    monkeypatch.setattr(mlperf, "probe", lambda *_, **__: (1.0, 100.0))
    with served(data, error_every=4) as server:
        done = servemark(*flags(server, data, tmp_path, *MLPERF, "--quality", command="mlperf"))
    score = the_result(tmp_path)["details"]["quality"]
    assert done.code == 2  # a failed request makes an MLPerf run invalid
    assert score["wrong"] == COUNT // 4


@pytest.mark.parametrize(
    ("flag", "log", "content", "code", "words"),
    [
        ((), "detail.txt", b":::MLLOG {", 2, "mlperf_log_detail.txt cannot be read"),
        (("--quality",), "accuracy.json", b"[", 3, "mlperf_log_accuracy.json cannot be read"),
        (("--quality",), "accuracy.json", b'[{"qsl_idx": 3, "data": "00"}]', 3, "the answer to sample 3 in"),
    ],
    ids=["performance log", "accuracy log", "an answer in it"],
)
def test_a_damaged_log_of_loadgen_is_told(
    data: Path, tmp_path: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch,
    flag: tuple[str, ...], log: str, content: bytes, code: int, words: str,
) -> None:  # fmt: skip
    """As a full disk leaves it. The latencies of this side are kept."""
    from servemark.runs import mlperf

    driven = official_loadgen.run

    def run(*given: Any, **settings: Any) -> Any:
        seen = driven(*given, **settings)
        (tmp_path / next(tmp_path.glob("*mlperf*")) / f"mlperf_log_{log}").write_bytes(content)
        return seen

    monkeypatch.setattr(mlperf, "probe", lambda *_, **__: (1.0, 100.0))
    monkeypatch.setattr(mlperf, "run", run)
    with served(data) as server:
        done = servemark(*flags(server, data, tmp_path, *MLPERF, *flag, command="mlperf"))
    assert (done.code, "Traceback" in done.err) == (code, False), done.err
    if flag:
        assert words in " ".join(done.err.split())
        return
    result = validated(the_result(tmp_path))
    assert count_of(result, "requests.answered") >= 5
    assert any(words in (each["remedy"] or "") for each in result["verdict"]["constraints"])


def test_a_picture_that_cannot_be_read_ends_the_run(
    data: Path, tmp_path: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = accuracy_log.LabelledLibrary.__getitem__

    def damaged(self: accuracy_log.LabelledLibrary, index: int) -> object:
        if index == 7:
            raise InputDataError("digit 7 is damaged", fix="replace it")
        return made(self, index)

    monkeypatch.setattr(accuracy_log.LabelledLibrary, "__getitem__", damaged)
    with served(data) as server:
        done = servemark(*flags(server, data, tmp_path, *MLPERF, "--quality", command="mlperf"))
    assert done.code == 3
    assert "digit 7 is damaged" in done.err


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
