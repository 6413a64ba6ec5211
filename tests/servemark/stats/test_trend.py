"""Steadiness of values over time."""

import math

import pytest

from servemark.stats.trend import drift, has_trend, max_over_min


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


UP = [1.0, 1.2, 1.1, 1.3, 1.4, 1.5, 1.6, 1.7, 1.9, 1.8]


@pytest.mark.parametrize("carry_over", [True, False])
@pytest.mark.parametrize(
    ("values", "change"),
    [
        (UP, 1.8 / 1.1),
        (UP[::-1], 1.1 / 1.8),
        ([1 + 0.01 * number for number in range(10)], None),  # one way, by 7 %
        (UP[:6], None),
        ([1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2], 2.1 / 1.1),
        ([1.0, 2.0, 1.5, 1.1, 1.9, 1.2, 1.8, 1.0, 2.0, 1.4], None),
        ([2.0] * 10, None),
    ],
)
def test_a_drift_goes_one_way_and_far_enough(values: list[float], change: float | None, *, carry_over: bool) -> None:
    assert drift(values, carry_over=carry_over) == (change and pytest.approx(change))


def test_where_windows_carry_over_more_of_them_must_be_in_order() -> None:
    values = [1.0, 1.3, 1.2, 1.1, 1.6, 1.5, 1.4, 1.9, 1.8, 2.0]
    assert drift(values, carry_over=False) == pytest.approx(1.9 / 1.2)
    assert drift(values, carry_over=True) is None


def test_values_that_begin_with_nothing() -> None:
    assert drift([0.0] * 4 + [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], carry_over=False) == math.inf
