"""Steadiness of values over time, and MSER against its definition."""

import math

import numpy as np
import pytest

from servemark.stats.trend import (
    IRRELEVANT,
    LAST,
    drift,
    has_trend,
    is_growing,
    max_over_min,
    tail_growth,
    truncation_point,
)


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
STEP = [1.0, 1.02, 0.99, 1.01, 0.98, 1.5, 1.52, 1.49, 1.51, 1.48]


@pytest.mark.parametrize("carry_over", [True, False])
@pytest.mark.parametrize(
    ("values", "change"),
    [
        (UP, 1.8 / 1.1),
        (UP[::-1], 1.1 / 1.8),
        (STEP, 1.5),
        (STEP[::-1], 1 / 1.5),
        ([1 + 0.01 * number for number in range(10)], None),  # one way, by 7 %
        (UP[:6], None),
        ([1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2], 2.1 / 1.1),
        ([1.0, 2.0, 1.5, 1.1, 1.9, 1.2, 1.8, 1.0, 2.0, 1.4], None),
        ([2.0] * 10, None),
    ],
)
def test_a_drift_or_step_that_is_large_enough(values: list[float], change: float | None, *, carry_over: bool) -> None:
    assert drift(values, carry_over=carry_over) == (change and pytest.approx(change, rel=0.02))


def test_windows_that_resemble_the_one_before_have_to_show_more() -> None:
    values = [1.0, 1.2, 1.15, 1.1, 1.5, 1.4, 1.6, 1.8, 1.7, 2.0]
    assert drift(values, carry_over=False) == pytest.approx(1.8 / 1.15)
    assert drift(values, carry_over=True) is None


def test_values_that_begin_with_nothing() -> None:
    assert drift([0.0] * 4 + [1.0, 1.1, 1.0, 1.1, 1.0, 1.1], carry_over=False) == math.inf


@pytest.mark.parametrize(
    ("slow", "growth"),
    [
        ([2, 4, 6, 7, 10, 11, 13, 16, 17, 20], 53 / 12),
        ([20, 17, 16, 13, 11, 10, 7, 6, 4, 2], None),
        ([10] * 10, None),
        ([0] * 10, None),
        ([0, 0, 1, 0, 0, 9, 0, 0, 0, 15], None),  # two busy moments
        ([1, 5, 10, 20, 30, 40], None),  # too few
    ],
)
def test_a_tail_that_grows(slow: list[int], growth: float | None) -> None:
    assert tail_growth(slow) == (growth and pytest.approx(growth))


@pytest.mark.parametrize(
    ("steps", "growing"),
    [([3, 2, 4, 3, 3, 2, 4], True), ([30, -20, 40, -10, -25, 50, -20], False), ([0] * 7, False), ([1] * 7, True)],
)
def test_a_queue_that_grows(steps: list[int], growing: bool) -> None:
    assert is_growing(steps) is growing


def by_definition(values: list[float]) -> int:
    """s^2(d) / (n - d), s^2 with its floor."""
    errors = []
    for point in range(len(values) - LAST + 1):
        kept = np.array(values[point:])
        errors.append((kept.var() + (IRRELEVANT * kept.mean()) ** 2) / len(kept))
    return int(np.argmin(errors))


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_smallest_marginal_standard_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 1e6 * (1 + rng.exponential(1, 60) * np.linspace(rng.uniform(0, 5), 1, 60))
    assert truncation_point(values) == by_definition(values.tolist())


def test_what_goes_on_changing_has_no_steady_part_and_what_hardly_changes_is_kept() -> None:
    assert truncation_point(np.linspace(1, 10, 100)) > 50
    assert truncation_point(np.linspace(1, 1.02, 100)) == 0
    assert truncation_point(np.ones(100)) == 0
