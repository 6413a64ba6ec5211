"""The comparison of outputs: what it measures, and what it refuses."""

import numpy as np
import pytest

from servemark.workload.agreement import PRECISIONS, Agreement, compare_outputs, compare_rows, worst_of_each


@pytest.fixture
def agreement() -> Agreement:
    return Agreement(atol=1e-3, rtol=0, min_match=0.9)


def test_compare_measures_what_it_says(agreement: Agreement) -> None:
    reference = np.array([[3.0, 4.0], [1.0, 0.0]], np.float32)
    output = np.array([[3.0, 4.0005], [0.998, 0.0]], np.float32)
    found = compare_outputs(output, reference, agreement)
    assert not found.agrees
    assert found.match_share == 0.75
    assert found.max_abs == pytest.approx(0.002, rel=1e-3)
    assert found.max_rel == pytest.approx(0.002, rel=1e-3)
    assert found.cosine_min == pytest.approx(1, abs=1e-6)
    turned = compare_outputs(reference[::-1], reference, agreement)
    assert turned.cosine_min == pytest.approx(0.6)


def test_compare_never_accepts_nan_and_counts_equal_ids(agreement: Agreement) -> None:
    ones = np.ones((1, 10), np.float32)
    assert compare_outputs(ones, ones, agreement).agrees
    assert not compare_outputs(np.where(np.arange(10) == 3, np.nan, ones), ones, agreement).agrees
    ids = np.arange(20, dtype=np.int32).reshape(2, 10)
    swapped = ids.copy()
    swapped[0, :2] = 1, 0
    assert compare_outputs(swapped, ids, agreement).agrees
    assert compare_outputs(swapped, ids, agreement).match_share == 0.9
    assert not compare_outputs(swapped[:1], ids[:1], agreement).agrees


def test_first_choice() -> None:
    scores = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)
    assert compare_outputs(scores[::-1], scores, Agreement()).top1_samples == 0
    ids = np.array([[7, 8], [9, 1]], np.int32)
    assert compare_outputs(np.array([[7, 1], [8, 1]], np.int32), ids, Agreement()).top1_samples == 1


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("answer", "agrees"),
    [
        ([1, 2, 3], True),
        ([0, 0, 0], False),  # what a model that lost its weights answers
        ([np.nan, 2, 3], False),
        ([np.nan] * 3, False),
        ([np.inf, 2, 3], False),
        ([-1, -2, -3], False),
    ],
)
def test_what_no_precision_may_answer(precision: str, answer: list[float], agrees: bool) -> None:
    reference = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]], np.float32)
    output = np.array([reference[0], answer], np.float32)
    found = compare_outputs(output, reference, Agreement().at(precision))
    assert found.agrees == agrees
    assert (found.cosine_min is None) == (not np.isfinite(answer).all())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_row_of_zeros_has_no_direction(precision: str) -> None:
    zeros, limits = np.zeros((1, 3), np.float32), Agreement(atol=1e-4).at(precision)
    assert compare_outputs(zeros, zeros, limits).agrees
    assert compare_outputs(zeros + np.float32(1e-6), zeros, limits).agrees
    assert not compare_outputs(zeros + 1, zeros, limits).agrees


def test_of_a_sample_s_answers_the_worst_counts() -> None:
    reference = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)[[1, 0, 1, 1]]
    output = reference + np.array([[0, 0], [0, 0], [-3, 0], [0, np.nan]], np.float32)
    worst = worst_of_each(compare_rows(output, reference, Agreement()), np.array([7, 3, 7, 7]))
    assert worst.shape == (2, 5)  # samples 3 and 7
    assert worst[0].tolist() == [1, 1, 0, 0, pytest.approx(1)]
    assert worst[1, :2].tolist() == [0.5, 0]
    assert np.isnan(worst[1, 2:]).all()


@pytest.mark.parametrize(
    ("precision", "kinds", "limits"),
    [
        ("fp32", {"floats": True, "integers": False}, {"atol": 1e-4, "rtol": 1e-3}),
        ("int8", {"floats": True, "integers": False}, {"min_cosine": 0.9}),
        ("int8", {"floats": True, "integers": True}, {"min_cosine": 0.9, "min_match": 0.5}),
        ("fp16", {"floats": False, "integers": True}, {"min_match": 0.9}),
    ],
)
def test_the_limits_that_decide(precision: str, kinds: dict[str, bool], limits: dict[str, float]) -> None:
    assert Agreement().at(precision).applied(**kinds) == limits
