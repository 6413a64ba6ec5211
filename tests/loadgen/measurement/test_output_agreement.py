"""Outputs compared in parts: together they say what one comparison of everything says."""

from dataclasses import asdict
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from loadgen.kserve.tensors import from_json
from loadgen.measurement.output_agreement import check
from servemark.repository.entry import Golden
from servemark.results.schema.header import reason_of
from servemark.workload import Agreement, Tensor, get
from servemark.workload.golden_check import GoldenCheck, agreement_figures


class Golds:
    """An answer to golden rows."""

    error, size = None, 0

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays

    def message(self) -> str:
        return ""

    def arrays(self, _outputs: Any) -> Any:
        return self._arrays


@pytest.mark.parametrize("spoilt", [None, 3.0, float("nan")])
def test_merged_comparisons_equal_one_of_everything(spoilt: float | None) -> None:
    rng = np.random.default_rng(1)
    outputs = [Tensor("scores", "FP64", (4,)), Tensor("ids", "INT64", (2,))]
    golden = Golden({}, {"scores": rng.random((6, 4)), "ids": rng.integers(0, 9, (6, 2))})
    sampled: list[Any] = []
    for row in range(6):
        scores, ids = golden.outputs["scores"][[row]].astype("f4") + 1e-5 * row, golden.outputs["ids"][[row]].copy()
        if row == 4:
            ids[0, 1] += 1
            scores[0, 0] += 0 if spoilt is None else spoilt
        sampled.append(((row,), Golds(scores=scores, ids=ids)))
    limits = Agreement(min_match=0.9)
    one = check(sampled, golden, outputs, limits)
    # each sample's answers may come to several processes
    parts = [check(part, golden, outputs, limits) for part in (sampled[:1], sampled[1:4] * 3, sampled[2:], [])]
    together = GoldenCheck.joined([GoldenCheck(**msgpack.loads(msgpack.dumps(asdict(part)))) for part in parts])
    assert (one.answers, together.answers) == (6, 14)
    assert together.samples == one.samples == list(range(6))
    found = together.discrepancies(outputs, limits)
    assert found == one.discrepancies(outputs, limits)
    # one of two ids of one of six rows: 11 of 12 are equal
    assert found["ids"].agrees
    assert found["ids"].match_share == pytest.approx(11 / 12)
    assert found["ids"].top1_samples == 6
    assert found["scores"].agrees is (spoilt is None)


def test_each_golden_sample_counts_once_however_often_it_was_asked() -> None:
    workload = get("resnet50")
    logits = np.eye(4, 1000, dtype=np.float32)
    golden = Golden({}, {"logits": logits})
    sampled: list[Any] = [((row,), Golds(logits=logits[[row]])) for row in (0, 1, 2, 3)]
    wrong = [((3,), Golds(logits=logits[[0]] * 0.1 + logits[[3]]))] + [((0,), Golds(logits=logits[[1]]))] * 20
    limits = workload.agreement.at("int8")
    figures, mismatch = agreement_figures(check([*sampled, *wrong], golden, workload.outputs, limits), workload, "int8")
    assert (figures["checked"], figures["samples"], figures["top1_samples"]) == (25, 4, 3)
    assert (figures["tolerance"], figures["weights"]) == (
        {"min_cosine": 0.9, "max_spread_error": 0.447},
        "random",
    )
    assert figures["cosine_min"] == 0
    assert mismatch == (
        "output 'logits' differs from eager PyTorch's: cosine 0 (at least 0.9), "
        "error 1.4 of the spread over the samples (at most 0.447), "
        "another first choice in 1 of 4 samples, which no near tie explains"
    )
    figures, mismatch = agreement_figures(check(sampled, golden, workload.outputs, limits), workload, "int8")
    assert (figures["top1_samples"], figures["top1_agreement"], mismatch) == (4, 1, None)
    nothing = agreement_figures(GoldenCheck(), workload, "int8")[0]
    assert reason_of(nothing, "samples") == "no golden request was answered"


class Unreadable(Golds):
    """An answer that has the sizes of the outputs, and not their values."""

    def arrays(self, _outputs: Any) -> Any:
        return {"ids": from_json([300], "UINT8", (1,))}


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [np.nan] * 3, [np.inf] * 3])
def test_an_answer_of_another_length_agrees_with_nothing(values: list[float]) -> None:
    outputs = [Tensor("scores", "FP32", (3,)), Tensor("ids", "INT64", (3,))]
    golden = Golden({}, {"scores": np.array([values] * 2, np.float32), "ids": np.arange(6).reshape(2, 3)})
    right = Golds(scores=golden.outputs["scores"][:1], ids=golden.outputs["ids"][:1])
    short = Golds(scores=golden.outputs["scores"][:1, :2], ids=golden.outputs["ids"][:1, :2])
    for answer, agrees in ((right, True), (short, False), (Unreadable(), False)):
        found = check([((0,), answer)], golden, outputs, Agreement()).discrepancies(outputs, Agreement())
        assert [each.agrees for each in found.values()] == [agrees] * 2


def test_a_run_allows_what_the_import_found_that_roundings_move() -> None:
    scores = np.random.default_rng(0).random((6, 4), np.float32)
    moves = np.zeros_like(scores)
    moves[4] = 0.01
    outputs, sampled = (
        [Tensor("scores", "FP32", (4,))],
        [((row,), Golds(scores=scores[[row]] + 0.05)) for row in (4, 5)],
    )
    golden = Golden({}, {"scores": scores}, moves={"scores": moves})
    for part, agrees in ((sampled[:1], True), (sampled, False)):
        assert check(part, golden, outputs, Agreement()).discrepancies(outputs, Agreement())["scores"].agrees is agrees
