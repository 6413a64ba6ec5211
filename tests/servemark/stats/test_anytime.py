"""Looking after every round: equal sides are told apart in at most 5 % of all comparisons, however long they go on."""

import math

import numpy as np
import pytest

from servemark.stats.anytime import MINIMUM_LOOK, anytime_ratio
from servemark.stats.ratios import ratio_of_pairs

RUNS, MOST = 200, 25


def looks(effect: float, seed: int) -> list[list[tuple[float, float]]]:
    """Comparisons whose rounds have this mean ratio as a logarithm, in standard deviations of a round."""
    logs = 0.03 * (np.random.default_rng(seed).normal(size=(RUNS, MOST)) + effect)
    return [[(math.exp(each), 1.0) for each in run] for run in logs]


def ever(found: list[tuple[float, float]], *, anytime: bool) -> bool:
    ratio = anytime_ratio if anytime else ratio_of_pairs
    return any(ratio(found[:count]).significant for count in range(MINIMUM_LOOK, MOST + 1))


def test_equal_sides_are_rarely_told_apart_by_any_look() -> None:
    runs = looks(0.0, 1)
    assert sum(ever(run, anytime=True) for run in runs) <= 0.05 * RUNS
    assert sum(ever(run, anytime=False) for run in runs) > 0.1 * RUNS  # which is why this test is needed


@pytest.mark.parametrize("effect", [0.5, 3.0])
def test_the_interval_holds_the_truth_at_every_look(effect: float) -> None:
    missed = 0
    for run in looks(effect, 2):
        found = [anytime_ratio(run[:count]) for count in range(MINIMUM_LOOK, MOST + 1)]
        missed += any(not each.low <= math.exp(0.03 * effect) <= each.high for each in found if each.low and each.high)
    assert missed <= 0.05 * RUNS


def test_sides_that_differ_are_told_apart_soon() -> None:
    needed = [
        next(count for count in range(MINIMUM_LOOK, MOST + 1) if anytime_ratio(run[:count]).significant)
        for run in looks(4.0, 3)
    ]
    assert np.median(needed) <= 6


def test_the_interval_has_the_ratios_that_the_test_does_not_reject() -> None:
    pairs = [(1.10, 1.0), (1.14, 1.0), (1.09, 1.0), (1.12, 1.0), (1.11, 1.0)]
    found = anytime_ratio(pairs)
    assert found.low is not None
    at_the_end = anytime_ratio([(first / found.low, second) for first, second in pairs])
    assert at_the_end.p_value == pytest.approx(0.05, rel=1e-6)


def test_fewer_than_three_rounds_have_no_interval() -> None:
    found = anytime_ratio([(2.0, 1.0)] * (MINIMUM_LOOK - 1))
    assert found.value == pytest.approx(2.0)
    assert (found.low, found.significant) == (None, None)


def test_rounded_values_widen_it() -> None:
    pairs = [(1.0, 1.0), (1.02, 1.0), (1.01, 1.0), (1.0, 1.0)]
    exact, rounded = anytime_ratio(pairs), anytime_ratio(pairs, slack=0.05)
    assert exact.high is not None
    assert rounded.high == pytest.approx(1.05 * exact.high)
    assert rounded.p_value == 1.0
