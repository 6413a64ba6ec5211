"""Change points: found where they are, and in noise alone in no more than 5 % of series."""

from collections.abc import Callable

import numpy as np
import pytest

from servemark.compare.history.changes import LEVEL, MIN_RESULTS, MIN_SEGMENT, chance, change_points

Draw = Callable[[np.random.Generator, int], "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"]
NOISE: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(3, 0.05, n),
    "heavy tails": lambda rng, n: rng.standard_t(2, n) * 0.05,
    "skewed": lambda rng, n: rng.exponential(0.1, n),
    "steps of a coarse meter": lambda rng, n: np.round(rng.normal(0, 1, n)),
}
SERIES = 300
MAX_ALARMS = SERIES * LEVEL + 3 * (SERIES * LEVEL * (1 - LEVEL)) ** 0.5
"""The binomial's mean and three standard deviations."""


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
@pytest.mark.parametrize("length", [MIN_RESULTS, 30])
def test_noise_alone_gives_few_alarms(noise: Draw, length: int) -> None:
    rng = np.random.default_rng(5)
    alarms = sum(bool(change_points(noise(rng, length).tolist())) for _ in range(SERIES))
    assert alarms <= MAX_ALARMS


@pytest.mark.parametrize("at", [3, 10, 15, 17])
def test_a_step_is_found_where_it_is(at: int) -> None:
    rng = np.random.default_rng(at)
    values = rng.normal(3, 0.02, 20)
    values[at:] += 0.3
    assert change_points(values.tolist()) == [at]


def test_a_rise_and_its_repair_are_two_changes() -> None:
    values = np.random.default_rng(1).normal(3, 0.02, 40)
    values[10:20] += 0.3
    assert change_points(values.tolist()) == [10, 20]


def test_two_late_results_show_a_change_after_eight_before() -> None:
    values = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 1.5, 1.51]
    assert change_points(values) == [8]
    assert change_points([*values[:8], 1.5]) == []  # one is an outlier


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [1.0, 2.0] * 3, [1.0] * (MIN_RESULTS - 2) + [9.0]])
def test_too_few_or_equal_values_have_no_change(values: list[float]) -> None:
    assert change_points(values) == []


def test_a_step_without_noise_is_found() -> None:
    assert change_points([1.0] * 6 + [2.0] * 6) == [6]
    assert chance([1.0] * 6 + [2.0] * 6) < 0.01
    assert chance([1.0] * 12) == 1.0
    assert MIN_SEGMENT == 2
