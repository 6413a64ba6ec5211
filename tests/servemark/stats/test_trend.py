"""Whether values over time are steady."""

import math

import pytest

from servemark.stats.trend import has_trend, max_over_min


def test_max_over_min() -> None:
    assert max_over_min([2.0, 4.0, 3.0]) == 2
    assert max_over_min([0.0, 4.0]) == math.inf


@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ([], False),
        ([1.0], False),
        ([1.0, 2.0, 3.0, 4.0], False),  # too few to tell
        ([1.0, 2.0, 3.0, 4.0, 5.0], True),
        ([5.0, 4.0, 3.0, 2.0, 1.0, 0.5], True),
        ([1.0, 5.0, 2.0, 4.0, 3.0, 3.5], False),
    ],
)
def test_a_trend_goes_one_way(values: list[float], trend: bool) -> None:
    assert has_trend(values) is trend
