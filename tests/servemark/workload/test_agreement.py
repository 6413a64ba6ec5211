"""The comparison of outputs: what it measures, and what it refuses."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from servemark.documents.request import PRECISIONS
from servemark.workload.agreement import (
    COLUMNS,
    CROSS_SHARE,
    SHARE_OF_ALL,
    Agreement,
    Figures,
    OutputScale,
    compare_outputs,
    compare_rows,
    scale_of,
    worst_of_each,
)

ROWS = 16


def drawn(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(ROWS, *shape)).astype(np.float32)


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    powers = np.exp(logits.astype(np.float64))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def test_compare_measures_what_it_says() -> None:
    reference = np.array([[3.0, 4.0], [1.0, 0.0]], np.float32)
    output = np.array([[3.0, 4.0005], [0.99, 0.0]], np.float32)
    found = compare_outputs(output, reference, Agreement())
    assert not found.agrees
    assert found.match_share == 0.75
    assert found.max_abs == pytest.approx(0.01, rel=1e-3)
    assert found.max_rel == pytest.approx(0.01, rel=1e-3)
    assert found.cosine_min == pytest.approx(1, abs=1e-6)
    # each row lies the root of 5 from the middle, [2, 2]
    assert found.spread_error == pytest.approx(0.01 / 5**0.5, rel=1e-3)
    turned = compare_outputs(reference[::-1], reference, Agreement())
    assert turned.cosine_min == pytest.approx(0.6)


def test_equal_ids_are_counted() -> None:
    ids, limits = np.arange(20, dtype=np.int32).reshape(2, 10), Agreement(min_match=0.9)
    swapped = ids.copy()
    swapped[0, 1:3] = 2, 1
    assert compare_outputs(swapped, ids, limits).agrees
    assert compare_outputs(swapped, ids, limits).match_share == 0.9
    assert not compare_outputs(swapped[:1], ids[:1], limits).agrees


def test_beside_a_common_offset_small_elements_carry_its_rounding() -> None:
    """A score of 1e-5 beside coordinates of 1, all nearly alike in all samples, was a sum of larger numbers."""
    reference = np.array([1, 1, 1, 1e-5], np.float32) + 1e-6 * drawn(4)
    for error, agrees in ((1e-7, True), (1e-6, False)):
        assert (
            compare_outputs(reference + np.array([0, 0, 0, error], np.float32), reference, Agreement()).agrees is agrees
        )


def test_an_answer_that_roundings_move_may_lie_ten_times_as_far() -> None:
    """Of the rows alone that they move, and of no reduced precision's cosine."""
    reference = drawn(4)
    moves = np.zeros_like(reference)
    moves[3, 1] = 0.01
    for row, error, agrees in ((3, 0.09, True), (3, 0.2, False), (4, 0.09, False)):
        output = reference.copy()
        output[row, 1] += error
        assert compare_outputs(output, reference, Agreement(), moves=moves).agrees is agrees
        assert not compare_outputs(output, reference, Agreement()).agrees


def test_first_choice() -> None:
    scores = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)
    assert compare_outputs(scores[::-1], scores, Agreement()).top1_samples == 0
    ids = np.array([[7, 8], [9, 1]], np.int32)
    assert compare_outputs(np.array([[7, 1], [8, 1]], np.int32), ids, Agreement()).top1_samples == 1


def beyond(reference: npt.NDArray[Any], place: tuple[int, ...], share: float) -> npt.NDArray[Any]:
    """Move one element by this share of its size."""
    scale, moved = scale_of(reference), reference.astype(np.float64).copy()
    assert scale is not None
    moved[place] += share * scale.sizes(moved)[place]
    return moved.astype(reference.dtype)


def first_swapped(reference: npt.NDArray[np.float32], row: int) -> npt.NDArray[np.float32]:
    """Swap the values of a row's first two choices."""
    swapped, (second, first) = reference.copy(), np.argsort(reference[row])[-2:]
    swapped[row, [first, second]] = swapped[row, [second, first]]
    return swapped


PEAKED = drawn(200) + 8 * np.eye(ROWS, 200, dtype=np.float32)
IDS = np.arange(ROWS * 10).reshape(ROWS, 10)


@pytest.mark.parametrize(
    ("precision", "within", "reference", "outside"),
    [
        pytest.param("fp32", beyond(drawn(5), (3, 2), 3e-3), drawn(5), beyond(drawn(5), (3, 2), 8e-3), id="spread"),
        # all that is left of the limits where the samples do not differ
        pytest.param(
            "fp32", np.full((ROWS, 3), 7.00003), np.full((ROWS, 3), 7.0), np.full((ROWS, 3), 7.001), id="rtol"
        ),
        pytest.param("int8", 0.8 * drawn(9), drawn(9), -drawn(9), id="min_cosine"),
        # int8 may shrink answers; what is lost counts against the spread
        pytest.param("int8", 0.8 * drawn(9), drawn(9), 0.5 * drawn(9), id="length"),
        pytest.param("fp16", drawn(9) + 50, drawn(9) + 50, drawn(9, seed=1) + 50, id="max_spread_error"),
        pytest.param("int8", PEAKED, PEAKED, first_swapped(PEAKED, 3), id="top-1"),
        pytest.param("fp16", np.where(IDS % 100 == 55, -1, IDS), IDS, np.where(IDS % 5 == 3, -1, IDS), id="min_match"),
        pytest.param("fp16", np.where(IDS == 50, -1, IDS), IDS, np.where(IDS % 50 == 0, -1, IDS), id="first id"),
    ],
)
def test_every_limit_refuses(
    precision: str, within: npt.NDArray[Any], reference: npt.NDArray[Any], outside: npt.NDArray[Any]
) -> None:
    limits = Agreement().at(precision)
    assert compare_outputs(within, reference, limits).agrees
    assert not compare_outputs(outside, reference, limits).agrees


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(drawn(8), id="plain"),
        pytest.param(drawn(8) * 1e-3 + 7, id="common offset"),
        pytest.param(softmax(drawn(1000) * 0.2), id="softmax of many"),
        pytest.param(drawn(3, 4) * np.array([[1000], [1], [1e-2]], np.float32), id="mixed sizes"),
    ],
)
def test_another_sample_s_answer_is_wrong_whatever_its_size(
    precision: str, size: float, reference: npt.NDArray[np.float32]
) -> None:
    reference = (reference.astype(np.float64) * size).astype(np.float32)
    limits = Agreement().at(precision)
    assert compare_outputs(reference * np.float32(1 + 5e-6), reference, limits).agrees
    assert not compare_outputs(np.roll(reference, 1, axis=0), reference, limits).agrees


def test_wrong_scores_beside_coordinates_are_wrong() -> None:
    boxes = drawn(6) * np.array([1000, 1000, 1000, 1000, 0.1, 1], np.float32)
    wrong = boxes.copy()
    wrong[:, 4] = np.roll(wrong[:, 4], 1)
    assert not compare_outputs(wrong, boxes, Agreement()).agrees


def test_an_outlier_hides_no_other_error() -> None:
    reference = drawn(4)
    reference[3, 2] = 1e9
    wrong = np.roll(reference, 1, axis=1)
    wrong[3] = reference[3]
    assert not compare_outputs(wrong, reference, Agreement()).agrees
    assert not compare_outputs(wrong, reference, Agreement().at("int8")).agrees


@pytest.mark.parametrize("precision", PRECISIONS)
def test_equal_nan_and_infinities_agree_with_themselves(precision: str) -> None:
    reference = drawn(6)
    reference[0, 0], reference[1, 1:3], reference[2] = np.nan, (np.inf, -np.inf), np.nan
    limits = Agreement().at(precision)
    found = compare_outputs(reference.copy(), reference, limits)
    assert found.agrees
    assert (found.max_abs, found.top1_samples) == (0, ROWS)
    assert found.cosine_min == pytest.approx(1)
    for place, value in (
        ((0, 0), np.inf),
        ((0, 0), 0),
        ((1, 1), -np.inf),
        ((1, 1), 9e9),
        ((1, 2), np.nan),
        ((4, 0), np.inf),
    ):
        wrong = reference.copy()
        wrong[place] = value
        found = compare_outputs(wrong, reference, limits)
        assert not found.agrees
        assert (found.max_abs, found.cosine_min) == (None, None)
    for whole in (np.full((ROWS, 3), np.nan), np.full((ROWS, 3), -np.inf)):
        assert compare_outputs(whole, whole, limits).agrees
        assert not compare_outputs(np.zeros((ROWS, 3)), whole, limits).agrees


def test_a_near_tie_may_go_the_other_way() -> None:
    tied = drawn(4)
    tied[:, 0], tied[:, 1] = 5, 5 - np.float32(1e-4) * np.arange(1, ROWS + 1)
    swapped = tied[:, [1, 0, 2, 3]]
    found = compare_outputs(swapped, tied, Agreement(spread_rtol=1e-2).at("fp16"))
    assert (found.agrees, found.top1_samples, found.choices_changed) == (True, 0, 0)


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
    zeros, limits = np.zeros((1, 3), np.float32), Agreement().at(precision)
    assert compare_outputs(zeros, zeros, limits).agrees
    assert compare_outputs(zeros + np.float32(1e-40), zeros, limits).agrees, "some engines flush it to 0"
    assert not compare_outputs(zeros + np.float32(1e-6), zeros, limits).agrees
    beside = drawn(3)
    beside[4] = 0
    near = beside + np.float32(1e-6)
    assert compare_outputs(near, beside, limits).match_share == 1


def test_an_output_without_elements_agrees() -> None:
    for dtype in (np.float32, np.int64):
        assert compare_outputs(np.zeros((2, 0), dtype), np.zeros((2, 0), dtype), Agreement()).agrees


def test_of_a_sample_s_answers_the_worst_counts() -> None:
    all_samples = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)
    reference = all_samples[[1, 0, 1, 1]]
    output = reference + np.array([[0, 0], [0, 0], [-3, 0], [0, np.nan]], np.float32)
    rows = compare_rows(output, reference, Agreement(), scale_of(all_samples))
    worst = worst_of_each(rows, np.array([7, 3, 7, 7]))
    assert worst.shape == (2, COLUMNS)  # samples 3 and 7
    assert worst[0].tolist() == [1, 1, 0, 0, pytest.approx(1), 0, 1]
    assert worst[1, :2].tolist() == [0.5, 0]
    assert np.isnan(worst[1, 2:5]).all()


@pytest.mark.parametrize(
    ("precision", "kinds", "limits"),
    [
        ("fp32", {"floats": True, "integers": False}, {"spread_rtol": 5e-3, "rtol": 1e-5}),
        ("int8", {"floats": True, "integers": False}, {"min_cosine": 0.9, "max_spread_error": 0.447}),
        (
            "int8",
            {"floats": True, "integers": True},
            {"min_cosine": 0.9, "max_spread_error": 0.447, "min_match": 0.5},
        ),
        ("fp16", {"floats": False, "integers": True}, {"min_match": 0.9}),
    ],
)
def test_the_limits_that_decide(precision: str, kinds: dict[str, bool], limits: dict[str, float]) -> None:
    assert Agreement().at(precision).applied(**kinds) == limits


SAMPLES = 16


def normal(*shape: int) -> Figures:
    return np.random.default_rng(0).normal(size=shape)


def test_few_samples_that_are_alike_by_chance_take_from_the_whole() -> None:
    values = normal(2, 1000)
    scale = OutputScale.of(values)
    assert scale.spread.min() >= SHARE_OF_ALL * scale.whole > 0.01


@pytest.mark.parametrize("values", [np.array([[1.0, 2.0, 4.0]]), np.tile([[1.0, 2.0, 4.0]], (SAMPLES, 1))])
def test_without_samples_that_differ_the_elements_are_compared(values: Figures) -> None:
    assert 0.5 < OutputScale.of(values).whole < 2


def test_a_constant_element_counts_a_little_of_the_whole() -> None:
    values = normal(SAMPLES, 100)
    values[:, 0] = 0
    scale = OutputScale.of(values)
    assert scale.spread[0] == pytest.approx(CROSS_SHARE * scale.whole)


def test_what_is_not_finite_does_not_count() -> None:
    values = normal(SAMPLES, 4)
    spoilt = values.copy()
    spoilt[0, 0], spoilt[1, 1], spoilt[:, 2], spoilt[5] = np.nan, np.inf, -np.inf, np.nan
    scale = OutputScale.of(spoilt)
    assert np.isfinite([*scale.centre, *scale.spread, scale.whole]).all()
    assert scale.spread[2] == pytest.approx(CROSS_SHARE * scale.whole)
    assert np.isfinite(scale.sizes(spoilt)[1, 1])
    assert OutputScale.of(np.zeros((SAMPLES, 3))).whole == 0
    assert OutputScale.of(np.full((SAMPLES, 3), np.nan)).whole == 0
    assert OutputScale.of(np.zeros((SAMPLES, 0))).whole == 0
