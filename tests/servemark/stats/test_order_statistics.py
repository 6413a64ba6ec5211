"""Intervals of dependent samples: what they need, and that they cover; `benchmarks.coverage` has the whole table."""

import numpy as np
import pytest

from benchmarks.coverage import Cell, coverage, servers, truths
from servemark.stats.order_statistics import MIN_BEYOND, MIN_WINDOWS, Ranks, TooLittle, independent_ranks, ranks
from servemark.stats.percentiles import PERCENTILES


def test_few_windows_do_not_tell() -> None:
    found = ranks(99, [10] * 5, [1000] * 5 + [0])
    assert isinstance(found, TooLittle)
    assert found.reason == f"needs {MIN_WINDOWS} windows with requests, has 5"


def test_few_requests_beyond_do_not_tell() -> None:
    found = ranks(99, [5] * 10, [500] * 10)
    assert isinstance(found, TooLittle)
    assert found.factor == pytest.approx(MIN_BEYOND / 50)
    assert "worth 50 independent requests" in found.reason


def test_a_burst_tells_little() -> None:
    assert isinstance(ranks(99, [10] * 10, [1000] * 10), Ranks)
    found = ranks(99, [100, *[0] * 9], [1000] * 10)
    assert isinstance(found, TooLittle)
    assert found.factor > 10


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
    ("name", "requests"), [("M/M/1 0.5", 15_000), ("closed loop of 8", 5_000), ("M/D/1 0.7", 5_000)]
)
def test_intervals_of_a_queue_cover(name: str, requests: int) -> None:
    simulate = servers()[name]
    cells = coverage(simulate, requests, 100, truths(simulate))
    given = 0
    for cell in cells:
        assert cell.misled <= 0.1
        if cell.given >= 50:
            given += 1
            assert cell.covered >= 0.87 * cell.given
            assert cell.bounded >= 0.93 * cell.given
    assert given


def test_the_simulated_queue_is_an_m_m_1() -> None:
    load, rate = 0.5, 1000.0
    expected = [-np.log(1 - percentile / 100) / (rate / load - rate) for percentile in PERCENTILES]
    drawn = servers()["M/M/1 0.5"](np.random.default_rng(1), 20, 50_000)[0]
    found = np.quantile(drawn, [percentile / 100 for percentile in PERCENTILES])
    assert found[:4] == pytest.approx(expected[:4], rel=0.05)


def test_a_cell_counts_those_that_mislead() -> None:
    cell = Cell()
    cell.add(TooLittle(""), 5, 5)
    cell.add(Ranks(1, 4, 6), 5, 5)
    assert (cell.runs, cell.given, cell.covered, cell.bounded, cell.misled) == (2, 1, 0, 1, 0.5)
    assert cell.words == "0%, 100% (50%)"
