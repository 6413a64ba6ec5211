"""Percentiles by nearest rank: how many samples they need, and how many may lie beyond a limit that they keep."""

import pytest

from servemark.stats.percentiles import allowed_beyond, samples_needed


@pytest.mark.parametrize(("percentile", "needed"), [(50, 20), (90, 100), (95, 200), (99, 1000), (99.9, 10_000)])
def test_ten_samples_lie_beyond_a_percentile(percentile: float, needed: int) -> None:
    assert samples_needed(percentile) == needed
    assert allowed_beyond(percentile, needed) == 10


@pytest.mark.parametrize(("count", "beyond"), [(0, 0), (99, 0), (100, 1), (10_000, 100), (10_099, 100)])
def test_a_share_of_the_samples_may_lie_beyond(count: int, beyond: int) -> None:
    assert allowed_beyond(99, count) == beyond
