"""LoadGen's verdict among ours: its bound is named, and other work on the machine is not blamed on the load."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.peers import official_loadgen
from servemark.documents.commands.measure import MlperfScenario
from servemark.errors import InputDataError
from servemark.figures.registry import count_of
from servemark.results.schema.run import Plan
from servemark.runs import mlperf
from servemark.runs.mlperf import from_bytes, loadgen_constraint, to_bytes
from servemark.workload import Arrays, Tensor
from tests.support.digits import COUNT, RIGHT, Scoring, served
from tests.support.documents import validated
from tests.support.locust_run import the_result

LOG = {
    "result_validity": "INVALID",
    "result_99.00_percentile_latency_ns": 86_000_000,
    "result_invalid_reason": "Reduce target QPS to improve latency",
}


def plan(scenario: MlperfScenario = MlperfScenario.SERVER) -> Plan:
    server = scenario is MlperfScenario.SERVER
    return Plan(
        scenario=scenario,
        expected_qps=300.0,
        expected_latency_ms=1.0,
        min_duration_s=20.0,
        min_queries=100,
        latency_ms=15.0 if server else None,
        percentile=99.0 if server else None,
        bound_from="ranking's own objective" if server else None,
        seed=0,
    )


def test_the_bound_stands_with_what_it_is_compared_with() -> None:
    found = loadgen_constraint(plan(), LOG, "", valid=False, busy=False)
    assert (found["value"], found["limit"], found["unit"]) == (86.0, 15.0, "ms at p99")
    assert found["remedy"] == (
        "the bound of 15 ms at p99 is ranking's own objective: lower --target-qps, or give a wider bound by --slo; "
        "LoadGen: Reduce target QPS to improve latency"
    )


def test_beside_other_work_nobody_is_told_to_ask_for_less() -> None:
    found = loadgen_constraint(plan(), LOG, "", valid=False, busy=True)
    assert "quiet machine" in found["remedy"]
    assert "QPS" not in found["remedy"]


def test_beyond_the_capacity_a_rate_is_named_also_beside_other_work() -> None:
    log = LOG | {"result_scheduled_samples_per_sec": 11_000.0, "result_completed_samples_per_sec": 1_012.0}
    for busy in (False, True):
        remedy = loadgen_constraint(plan(), log, "", valid=False, busy=busy)["remedy"]
        assert "lower --target-qps to 810 (1,012 of 11,000/s were completed)" in (remedy or "")


@pytest.mark.parametrize("scenario", [each for each in MlperfScenario if each is not MlperfScenario.SERVER])
def test_the_other_scenarios_have_no_bound(scenario: MlperfScenario) -> None:
    found = loadgen_constraint(plan(scenario), LOG, "", valid=False, busy=False)
    assert (found["value"], found["limit"], found["remedy"]) == (None, None, LOG["result_invalid_reason"])


def test_an_interrupted_run_says_so() -> None:
    assert loadgen_constraint(plan(), {}, "interrupted", valid=False, busy=True)["remedy"] == "interrupted"


MLPERF = ("--scenario", "SingleStream", "--min-duration", "0.3", "--min-queries", "5")
TENSORS = (Tensor("ids", "INT32", (-1,)), Tensor("score", "FP32", (1,)), Tensor("masks", "UINT8", (2, 2)))


@pytest.fixture(autouse=True)
def _short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlperf, "PROBE_S", 0.1)


def test_both_modes_run_and_the_accuracy_log_is_scored(scoring: Scoring, tmp_path: Path) -> None:
    scoring(*MLPERF, command="mlperf", below="p")
    before = len(scoring.server.requests())
    done = scoring(*MLPERF, "--quality", command="mlperf", below="a")
    requests = len(scoring.server.requests()) - before
    quality = scoring(below="q")
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
    scoring: Scoring, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlperf, "probe", lambda *_, **__: (1.0, 100.0))
    with served(data, error_every=4) as server:
        done = scoring(*MLPERF, "--quality", command="mlperf", at=server)
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
    scoring: Scoring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    flag: tuple[str, ...], log: str, content: bytes, code: int, words: str,
) -> None:  # fmt: skip
    """As a full disk leaves it. The latencies of this side are kept."""
    driven = official_loadgen.run

    def run(*given: Any, **settings: Any) -> Any:
        seen = driven(*given, **settings)
        (tmp_path / next(tmp_path.glob("*mlperf*")) / f"mlperf_log_{log}").write_bytes(content)
        return seen

    monkeypatch.setattr(mlperf, "probe", lambda *_, **__: (1.0, 100.0))
    monkeypatch.setattr(mlperf, "run", run)
    done = scoring(*MLPERF, *flag, command="mlperf")
    assert (done.code, "Traceback" in done.err) == (code, False), done.err
    if flag:
        assert words in " ".join(done.err.split())
        return
    result = validated(the_result(tmp_path))
    assert count_of(result, "requests.answered") >= 5
    assert any(words in (each["remedy"] or "") for each in result["verdict"]["constraints"])


def test_a_picture_that_cannot_be_read_ends_the_run(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    made = mlperf.LabelledLibrary.__getitem__

    def damaged(self: mlperf.LabelledLibrary, index: int) -> object:
        if index == 7:
            raise InputDataError("digit 7 is damaged", fix="replace it")
        return made(self, index)

    monkeypatch.setattr(mlperf.LabelledLibrary, "__getitem__", damaged)
    done = scoring(*MLPERF, "--quality", command="mlperf")
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
