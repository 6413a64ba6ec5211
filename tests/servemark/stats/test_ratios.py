"""Ratios with known answers, and their intervals compared with simulation (fixed seeds: nothing here can flake)."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from servemark.stats.histogram import Histogram
from servemark.stats.ratios import (
    MINIMUM_PAIRS,
    Ratio,
    difference_of_means,
    mean_interval,
    merged_interval,
    ratio_of_merged,
    ratio_of_pairs,
    ratio_of_repeats,
    share_difference,
    variation,
)
from tests.support.results import histogram_of

Floats = npt.NDArray[np.float64]


def coverage(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


def inside(ratio: Ratio, truth: float) -> bool:
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low <= truth <= ratio.high


def test_pairs_with_a_known_ratio() -> None:
    found = ratio_of_pairs([(20, 10), (40, 20), (6, 3), (8, 4), (2, 1)])
    assert found.value == pytest.approx(2)
    assert found.low == pytest.approx(2)
    assert found.high == pytest.approx(2)
    assert found.significant


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
    assert found.low == pytest.approx(1.2)
    assert found.high == pytest.approx(1.2)


def test_few_pairs_have_a_ratio_and_no_interval() -> None:
    found = ratio_of_pairs([(2, 1)] * (MINIMUM_PAIRS - 1))
    assert (found.low, found.high, found.significant) == (None, None, None)
    assert str(found) == "2.000 (no interval)"


@pytest.mark.parametrize(("pairs", "least"), [(5, 0.88), (8, 0.90)])
def test_intervals_over_pairs_cover_the_truth(pairs: int, least: float) -> None:
    rng = np.random.default_rng(11)
    hits = []
    for _ in range(400):
        drift = rng.lognormal(0, 0.3, pairs)
        a, b = (truth * drift * rng.lognormal(0, 0.05, pairs) for truth in (1.5, 1.0))
        hits.append(inside(ratio_of_pairs(list(zip(a, b, strict=True))), 1.5))
    assert least <= coverage(hits) <= 0.98


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


@pytest.mark.parametrize("runs", [(2, 2), (3, 5)])
def test_intervals_over_repeats_cover_the_truth(runs: tuple[int, int]) -> None:
    rng = np.random.default_rng(12)
    hits = []
    for _ in range(300):
        a, b = rng.lognormal(math.log(3), 0.1, runs[0]), rng.lognormal(0, 0.1, runs[1])
        hits.append(inside(ratio_of_repeats(a.tolist(), b.tolist()), 3))
    assert 0.93 <= coverage(hits) <= 0.99


def test_repeats_without_any_variation_are_no_crash() -> None:
    found = ratio_of_repeats([2.0, 2.0], [1.0, 1.0])
    assert [found.value, found.low, found.high] == pytest.approx([2, 2, 2])


def test_merged_percentiles_span_the_rounds() -> None:
    rng = np.random.default_rng(15)
    levels = [10.0, 11.0, 12.0, 13.0, 14.0]
    rounds = [histogram_of(rng.normal(level, 0.01, 500)) for level in levels]
    interval = merged_interval(rounds, 50)
    assert interval is not None
    merged = Histogram()
    for each in rounds:
        merged.merge(each)
    # the order statistics take all 2,500 samples for one population and so know nothing of the rounds
    assert interval[0] < 11 < merged.independent_interval(50)[0]
    assert merged.independent_interval(50)[1] < 13 < interval[1]
    assert merged_interval(rounds[:4], 50) is None


def test_the_ratio_of_merged_percentiles() -> None:
    rng = np.random.default_rng(18)
    slow, fast = ([histogram_of(rng.normal(mean, 1, 300)) for _ in range(5)] for mean in (120, 100))
    found = ratio_of_merged(slow, fast, 99)
    assert found is not None
    assert found.value == pytest.approx(122.3 / 102.3, rel=0.01)
    assert inside(found, found.value)
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
    assert 0.88 <= coverage(hits) <= 0.99


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


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_a_histogram_comes_back_from_its_encoding(count: int) -> None:
    original = histogram_of(np.random.default_rng(17).lognormal(3, 1, count))
    decoded = Histogram.decode(original.encode())
    assert decoded.count == original.count
    np.testing.assert_array_equal(decoded.counts, original.counts)
    if count:
        assert decoded.percentile(50) == pytest.approx(original.percentile(50), rel=5e-4)
        assert decoded.mean_ms() == pytest.approx(original.mean_ms(), rel=1e-3)
        assert decoded.max_ns == pytest.approx(original.max_ns, rel=1e-3)


def test_no_histogram() -> None:
    with pytest.raises(ValueError, match="no HdrHistogram"):
        Histogram.decode("not one")


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
