"""Percentiles: the samples that they need, and intervals of dependent samples: what they need, and that they cover."""

import math

import numpy as np
import pytest

from servemark.stats.percentiles import (
    MIN_WINDOWS,
    PERCENTILES,
    Ranks,
    TooLittle,
    allowed_beyond,
    independent_ranks,
    ranks,
    samples_needed,
)
from tests.support.simulated_servers import SERVERS, coverage


@pytest.mark.parametrize(("percentile", "needed"), [(50, 20), (90, 100), (95, 200), (99, 1000), (99.9, 10_000)])
def test_ten_samples_lie_beyond_a_percentile(percentile: float, needed: int) -> None:
    assert samples_needed(percentile) == needed
    assert allowed_beyond(percentile, needed) == 10


@pytest.mark.parametrize(("count", "beyond"), [(0, 0), (99, 0), (100, 1), (10_000, 100), (10_099, 100)])
def test_a_share_of_the_samples_may_lie_beyond(count: int, beyond: int) -> None:
    assert allowed_beyond(99, count) == beyond


@pytest.mark.parametrize(
    ("above", "counts", "reason", "factor"),
    [
        ([10] * 5 + [0], [1000] * 5 + [0], f"needs {MIN_WINDOWS} windows with requests, has 5", MIN_WINDOWS),
        ([5] * 10, [500] * 10, "only about 50 requests lie above it", 69.5 / 50),
        ([100, *[0] * 9], [1000] * 10, "the slowest requests came in bursts", 94.62),
    ],
)
def test_few_windows_few_requests_beyond_and_bursts_do_not_tell(
    above: list[int], counts: list[int], reason: str, factor: float
) -> None:
    found = ranks(99, above, counts)
    assert isinstance(found, TooLittle)
    assert reason in found.reason
    assert found.factor == pytest.approx(factor, abs=0.01)


def test_the_bound_lies_above_the_interval_and_both_within_the_samples() -> None:
    rng = np.random.default_rng(3)
    for percentile in (50.0, 90.0, 98.0):
        for _ in range(50):
            found = ranks(percentile, rng.binomial(4000, 1 - percentile / 100, 10).tolist(), [4000] * 10)
            assert isinstance(found, Ranks)
            low, high = independent_ranks(40_000, percentile)
            assert 1 <= found.low <= low < high <= found.high <= found.bound <= 40_000


def test_nothing_or_all_beyond_is_no_error() -> None:
    assert isinstance(ranks(50, [0] * 10, [1000] * 10), Ranks)
    assert isinstance(ranks(50, [1000] * 10, [1000] * 10), Ranks)


@pytest.mark.parametrize(
    ("name", "requests"),
    [("M/M/1 0.5", 5_000), ("closed loop of 8", 5_000), ("M/D/1 0.7", 5_000), ("gamma arrivals, cv 4, 0.5", 1_500)],
)
def test_intervals_of_a_queue_cover_also_where_few_runs_show_one(name: str, requests: int) -> None:
    shown = [(given, held) for given, held in coverage(SERVERS[name], requests, 150) if given > 3]
    assert shown
    for given, held in shown:
        # At most one more than the binomial's three standard deviations.
        assert given - held <= 1 + 0.05 * given + 3 * (0.05 * 0.95 * given) ** 0.5


def test_the_simulated_queue_is_an_m_m_1() -> None:
    load, rate = 0.5, 1000.0
    expected = [-np.log(1 - percentile / 100) / (rate / load - rate) for percentile in PERCENTILES]
    drawn = SERVERS["M/M/1 0.5"](np.random.default_rng(1), 20, 50_000)[0]
    found = np.quantile(drawn, [percentile / 100 for percentile in PERCENTILES])
    assert found[:4] == pytest.approx(expected[:4], rel=0.05)


def test_many_short_windows_are_joined() -> None:
    """24 windows of which each two are alike tell as much as 12."""
    twice = ranks(90, [each for each in (90, 110) * 6 for _ in range(2)], [1000] * 24)
    once = ranks(90, [180, 220] * 6, [2000] * 12)
    assert twice == once
    assert isinstance(ranks(90, [100] * 25, [1000] * 25), Ranks)


def test_near_the_smallest_number_an_interval_is_wider() -> None:
    few, many = (ranks(90, [each] * 10, [each * 10] * 10) for each in (10, 1000))
    assert isinstance(few, Ranks)
    assert isinstance(many, Ranks)
    relative = [(found.high - found.low) / total**0.5 for found, total in ((few, 1000), (many, 100_000))]
    assert relative[0] == pytest.approx(relative[1] * (500 / 100) ** 0.5, rel=0.1)


@pytest.mark.parametrize(("windows", "needed"), [(6, 94), (10, 70), (14, 62)])
def test_fewer_windows_need_more_requests_so_that_the_bound_stays_within_the_sample(windows: int, needed: int) -> None:
    found = ranks(99, [4] * windows, [400] * windows)
    assert isinstance(found, TooLittle)
    assert f"an interval needs {needed}" in found.reason
    beyond = math.ceil(needed / windows)
    found = ranks(99, [beyond] * windows, [100 * beyond] * windows)
    assert isinstance(found, Ranks)
    assert found.bound < 100 * beyond * windows
