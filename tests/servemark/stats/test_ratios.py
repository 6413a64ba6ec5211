"""Ratios with known answers, and their intervals compared with scipy's and with simulation (of fixed seeds)."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from servemark.stats.ratios import (
    MINIMUM_LOOK,
    MINIMUM_PAIRS,
    Ratio,
    anytime_ratio,
    difference_of_means,
    holm,
    mean_interval,
    merge,
    merged_interval,
    ratio_of_merged,
    ratio_of_pairs,
    ratio_of_repeats,
    share_difference,
    variation,
)
from tests.support.results import histogram_of


def test_holm_stops_at_the_first_that_is_not_significant() -> None:
    # 0.005 <= 0.05 / 4, 0.01 <= 0.05 / 3, 0.03 > 0.05 / 2: so 0.04 <= 0.05 / 1 is not asked any more.
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert holm([0.04]) == [True]
    assert holm([]) == []


def test_the_inverse_changes_the_places_of_its_bounds() -> None:
    assert Ratio(2.0, 1.6, 2.5, 0.01).inverse == Ratio(0.5, 0.4, 0.625, 0.01)
    assert Ratio(2.0, None, None, None).inverse == Ratio(0.5, None, None, None)


def test_a_ratio_is_the_inverse_of_its_inverse() -> None:
    pairs = [(1.0, 1.1), (1.3, 1.0), (0.9, 1.2), (1.0, 1.05), (1.1, 0.8), (1.2, 1.3)]
    one, other = ratio_of_pairs(pairs), ratio_of_pairs([(b, a) for a, b in pairs])
    assert one.value == pytest.approx(1 / other.value)
    assert one.low == pytest.approx(1 / (other.high or 0), rel=0.02)
    assert one.significant is False
    assert "not significant" in str(one)


def test_drift_that_both_share_is_not_in_the_ratio() -> None:
    drift = [1.0, 1.5, 3.0, 2.0, 5.0]
    found = ratio_of_pairs([(12 * d, 10 * d) for d in drift])
    assert [found.value, found.low, found.high] == pytest.approx([1.2, 1.2, 1.2])
    assert found.significant


def test_few_pairs_have_a_ratio_and_no_interval() -> None:
    found = ratio_of_pairs([(2, 1)] * (MINIMUM_PAIRS - 1))
    assert (found.low, found.high, found.significant) == (None, None, None)
    assert str(found) == "2.000 (no interval)"


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_intervals_over_repeats_are_scipys(confidence: float) -> None:
    first, second = [1.1, 1.3, 0.9, 1.0], [0.7, 0.8, 0.75]
    logs = np.log(first), np.log(second)
    expected = ttest_ind(*logs, equal_var=False).confidence_interval(confidence)
    found = ratio_of_repeats(first, second, confidence)
    assert (found.low, found.high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    expected = ttest_1samp(logs[0][:3] - logs[1], 0).confidence_interval(confidence)
    found = ratio_of_repeats(first[:3], second, confidence, paired=True)
    assert (found.low, found.high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


def test_repeats_without_any_variation_are_no_crash() -> None:
    found = ratio_of_repeats([2.0, 2.0], [1.0, 1.0])
    assert [found.value, found.low, found.high] == pytest.approx([2, 2, 2])


def test_merged_percentiles_span_the_rounds() -> None:
    rng = np.random.default_rng(15)
    levels = [10.0, 11.0, 12.0, 13.0, 14.0]
    rounds = [histogram_of(rng.normal(level, 0.01, 500)) for level in levels]
    interval = merged_interval(rounds, 50)
    assert interval is not None
    # The order statistics take all 2,500 samples for one population, and so know nothing of the rounds.
    low, high = merge(rounds).independent_interval(50)
    assert interval[0] < 11 < low
    assert high < 13 < interval[1]
    assert merged_interval(rounds[:4], 50) is None


def test_the_ratio_of_merged_percentiles() -> None:
    rng = np.random.default_rng(18)
    slow, fast = ([histogram_of(rng.normal(mean, 1, 300)) for _ in range(5)] for mean in (120, 100))
    found = ratio_of_merged(slow, fast, 99)
    assert found is not None
    assert found.value == pytest.approx(122.3 / 102.3, rel=0.01)
    assert found.significant
    assert ratio_of_merged(slow[:4], fast, 99) is None


def test_merged_rounds_that_all_lean_one_way_are_no_proof() -> None:
    rng = np.random.default_rng(19)
    leans = (1.01, 1.02, 1.03, 1.3, 1.5)  # equal sides do so in 6 of 100 comparisons of five rounds
    slow, fast = ([histogram_of(rng.normal(100 * lean, 1, 300)) for lean in each] for each in (leans, (1.0,) * 5))
    found = ratio_of_merged(slow, fast, 50, paired=True)
    assert found is not None
    assert not found.significant


def test_merged_intervals_cover_the_truth() -> None:
    rng = np.random.default_rng(16)
    hits = []
    for _ in range(75):
        rounds = [histogram_of(rng.normal(rng.normal(100, 3), 5, 200)) for _ in range(6)]
        interval = merged_interval(rounds, 50)
        assert interval is not None
        hits.append(interval[0] <= 100 <= interval[1])
    assert 0.88 <= sum(hits) / len(hits) <= 0.99


def test_mean_interval() -> None:
    assert mean_interval([1.0] * 4) is None
    interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval is not None
    # 3 and its standard error of sqrt(2.5 / 5), with t(4) = 2.776
    assert interval == pytest.approx([3 - 1.963, 3 + 1.963], abs=1e-3)


def test_variation_needs_four_known_values() -> None:
    assert variation([9.0, 10.0, 11.0, 10.0]) == pytest.approx(math.sqrt(2 / 3) / 10)
    assert variation([9.0, 10.0, 11.0]) is None
    assert variation([9.0, 10.0, 11.0, None, 9.0]) is None
    assert variation([0.0] * 5) is None


def test_share_difference_is_newcombes_published_example() -> None:
    # Newcombe 1998, table II, row (a) 56/70 - 48/80, method 10
    low, high = share_difference((56, 70), (48, 80))
    assert [low, high] == pytest.approx([0.0524, 0.3339], abs=5e-5)


def test_share_difference_of_nothing_and_nothing_is_not_significant() -> None:
    low, high = share_difference((0, 1000), (0, 500))
    assert low < 0 < high
    assert share_difference((30, 1000), (0, 1000))[0] > 0


def test_a_merged_percentile_among_failed_requests_has_no_interval() -> None:
    rounds = [histogram_of(np.full(1000, 10.0)) for _ in range(5)]
    for each in rounds:
        each.failed = 20
    assert merged_interval(rounds, 99) is None
    assert merged_interval(rounds, 95) is not None
    assert ratio_of_merged(rounds, rounds, 99) is None


def test_the_difference_of_means_is_welchs() -> None:
    low, high = difference_of_means([3.0, 4.0, 5.0], [1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 2.2669, 2 + 2.2669), rel=1e-3)  # t of 4 degrees, 2.7764, x sqrt(2 / 3)


RUNS, MOST = 200, 25


def looks(effect: float, seed: int) -> list[list[tuple[float, float]]]:
    """Comparisons whose rounds have this mean ratio as a logarithm, in standard deviations of a round."""
    logs = 0.03 * (np.random.default_rng(seed).normal(size=(RUNS, MOST)) + effect)
    return [[(math.exp(each), 1.0) for each in run] for run in logs]


def test_equal_sides_are_rarely_told_apart_by_any_look() -> None:
    told = [
        any(anytime_ratio(run[:count]).significant for count in range(MINIMUM_LOOK, MOST + 1)) for run in looks(0.0, 1)
    ]
    assert sum(told) <= 0.05 * RUNS


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
