"""MLPerf's early-stopping table, and what its confidence is worth."""

import numpy as np
import pytest

from servemark.stats.percentiles import beyond_luck, over_allowed, requests_missing, requests_to_show

# mlcommons/inference, "early stopping" (confidence 0.99): percentile -> {over the bound: smallest number of requests}.
TABLE = {
    90.0: {0: 44, 1: 64, 2: 81, 10: 197, 100: 1246},
    99.0: {0: 459, 1: 662, 2: 838, 10: 2010, 100: 12571},
    99.9: {0: 4603, 1: 6636, 2: 8403, 10: 20140, 100: 125826},
}
CELLS = [(percentile, over, n) for percentile, row in TABLE.items() for over, n in row.items()]


@pytest.mark.parametrize(("percentile", "over", "n"), CELLS)
def test_the_table_of_mlperf(percentile: float, over: int, n: int) -> None:
    assert requests_to_show(percentile, over) == n
    assert over_allowed(percentile, n) == over
    assert over_allowed(percentile, n - 1) == (over - 1 if over else None)


def test_confidence_is_what_it_says() -> None:
    """A tail that is exactly at its bound is taken to keep it in at most 1 % of runs."""
    rng, n = np.random.default_rng(3), 2010
    allowed = over_allowed(99.0, n)
    assert allowed == 10
    wrongly = np.mean(rng.binomial(n, 0.01, 20_000) <= allowed)
    assert 0.005 < wrongly <= 0.01 + 4 * np.sqrt(0.01 / 20_000)


@pytest.mark.parametrize(
    ("over", "requests", "missing"),
    [
        (0, 459, 0),
        (0, 458, 1),
        (1, 662, 0),
        (2, 837, 164),  # 2 of 837 are 3 of 1,001
        (5, 500, None),  # one in a hundred is what p99 allows: no number shows less
        (6, 500, None),
        (0, 10, 449),
        (0, 0, 459),
    ],
)
def test_how_many_more_requests_show_a_bound(over: int, requests: int, missing: int | None) -> None:
    assert requests_missing(99, over, requests) == missing


def test_so_many_more_like_these_are_enough() -> None:
    missing = requests_missing(99, 4, 1000)
    assert missing
    total = 1000 + missing
    assert total >= requests_to_show(99, round(total * 0.004))
    assert total - 300 < requests_to_show(99, round((total - 300) * 0.004) + 1)


def test_so_many_over_a_bound_are_no_luck() -> None:
    """A percentile that is exactly at its bound is taken to lie beyond it in at most 1 % of runs."""
    rng, n = np.random.default_rng(5), 500
    wrongly = np.mean([beyond_luck(99.0, over, n) for over in rng.binomial(n, 0.01, 5_000)])
    assert 0.001 < wrongly <= 0.01 + 4 * np.sqrt(0.01 / 5_000)
    assert beyond_luck(99.0, 50, 100)
    assert not beyond_luck(99.0, 0, 0)
