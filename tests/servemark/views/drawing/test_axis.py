"""Axes: where values lie, and round numbers beside them."""

import itertools

import numpy as np
import pytest

from servemark.views.drawing.axis import label, linear, logarithmic, percentiles, round_numbers


def test_a_linear_axis_begins_at_zero_and_ends_at_a_round_number() -> None:
    axis = linear("ms", [3.0, None, 17.3])
    assert (axis.low, axis.high) == (0, 20)
    assert [words for _, words in axis.ticks] == ["0", "5", "10", "15", "20"]
    assert [axis.share(value) for value in (0, 5, 20, -1, 99)] == [0, 0.25, 1, 0, 1]


@pytest.mark.parametrize("values", [[], [0.0], [7.0], [None], [-2.0, 3.0], [1e-9], [1e9, 2e9], [0.1, 0.1]])
@pytest.mark.parametrize("from_zero", [True, False])
def test_every_range_has_ticks_and_room(values: list[float | None], from_zero: bool) -> None:
    axis = linear("", values, from_zero=from_zero)
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 8
    assert all(axis.low <= tick <= axis.high for tick, _ in axis.ticks)


def test_a_logarithmic_axis_gives_equal_ratios_equal_room() -> None:
    axis = logarithmic("ms", [0.0, 1.0, None, 1000.0])
    assert axis.share(10) - axis.share(1) == pytest.approx(axis.share(1000) - axis.share(100))
    assert [words for _, words in axis.ticks] == ["1", "10", "100", "1,000"]
    assert logarithmic("ms", [5.0]).share(5.0) == pytest.approx(0.5)
    assert logarithmic("ms", []).ticks


@pytest.mark.parametrize(
    "values", [(1.0, 0.8), (1.0, 1.25), (1.0, 1.0), (0.87, 2.2), (0.1, 10.0), (1.0, 100.0), (1e-3, 1e6)]
)
def test_round_numbers_are_few_and_apart(values: tuple[float, ...]) -> None:
    low, high = min(values) / 1.1, max(values) * 1.1
    ticks = round_numbers(low, high)
    assert 3 <= len(ticks) <= 8
    assert low <= ticks[0] < ticks[-1] <= high
    steps = np.diff(np.log(ticks))
    assert min(steps) > np.log(high / low) / 20


def test_each_nine_of_a_percentile_takes_the_same_room() -> None:
    axis = percentiles("percentile", 10_000)
    assert [words for _, words in axis.ticks] == ["0%", "90%", "99%", "99.9%", "99.99%"]
    shares = [axis.share(tick) for tick, _ in axis.ticks]
    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [words for _, words in percentiles("", 1_000).ticks][:2] == ["50%", "90%"]
    assert percentiles("", 1).ticks[-1][1] == "90%"


def test_labels_are_plain_numbers() -> None:
    assert [*map(label, (0.2, 1.5, 1000, 250_000, 1e7))] == ["0.2", "1.5", "1,000", "250,000", "10,000,000"]
    assert all(a < b for a, b in itertools.pairwise(tick for tick, _ in linear("", [0.30000001]).ticks))
