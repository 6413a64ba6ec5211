"""Plots: axes have round numbers, every mark lies where its values say, words are escaped."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from servemark.views.charts import Bar, bars
from servemark.views.drawing import HEIGHT, WIDTH, Plot, label, linear, logarithmic, percentiles, round_numbers

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J\"'&"


def test_a_linear_axis_begins_at_zero_and_ends_at_a_round_number() -> None:
    axis = linear("ms", [3.0, None, 17.3])
    assert (axis.low, axis.high) == (0, 20)
    assert [words for _, words in axis.ticks] == ["0", "5", "10", "15", "20"]
    assert [axis.share(value) for value in (0, 5, 20, -1, 99)] == [0, 0.25, 1, 0, 1]


@pytest.mark.parametrize(
    "values", [[], [0.0], [7.0], [None], [-2.0, 3.0], [1e-9], [1e9, 2e9], [0.1, 0.1], [0.30000001]]
)
@pytest.mark.parametrize("from_zero", [True, False])
def test_every_range_has_ticks_and_room(values: list[float | None], from_zero: bool) -> None:
    axis = linear("", values, from_zero=from_zero)
    ticks = [tick for tick, _ in axis.ticks]
    assert axis.low < axis.high
    assert 2 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))
    assert axis.low <= ticks[0] < ticks[-1] <= axis.high


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
    assert min(np.diff(np.log(ticks))) > np.log(high / low) / 20


def test_each_nine_of_a_percentile_takes_the_same_room() -> None:
    axis = percentiles("percentile", 10_000)
    assert [words for _, words in axis.ticks] == ["0%", "90%", "99%", "99.9%", "99.99%"]
    assert [axis.share(tick) for tick, _ in axis.ticks] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert [words for _, words in percentiles("", 1_000).ticks][:2] == ["50%", "90%"]
    assert percentiles("", 1).ticks[-1][1] == "90%"


def test_labels_are_plain_numbers() -> None:
    assert [*map(label, (0.2, 1.5, 1000, 250_000, 1e7))] == ["0.2", "1.5", "1,000", "250,000", "10,000,000"]


def plot() -> Plot:
    return Plot("a plot", linear("s", [0.0, 10.0]), linear("ms", [0.0, 100.0]))


def test_a_line_has_gaps_where_nothing_is_known_and_a_step_holds_its_value() -> None:
    drawn = plot()
    drawn.line([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)], "p50", 0)
    drawn.line([(0, 10.0), (5, 20.0), (10, 20.0)], "rate", 1, stepped=True)
    joined, stepped = re.findall(r'class="line c\d" d="([^"]+)"', drawn.svg)
    assert joined.count("M") == 2
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+H[\d.]+V[\d.]+", stepped)
    assert [key.words for key in drawn.keys] == ["p50", "rate"]


def test_what_lies_beyond_an_axis_stays_in_the_figure() -> None:
    drawn = plot()
    drawn.line([(-5, -1e9), (50, 1e9)], "far", 0)
    drawn.dots([(1e9, 1e9, "far")], "far", 0)
    drawn.levels([("limit", 1e9)])
    drawn.mark(-7, "mark")
    drawn.band(-7, 1e9)
    places = [
        float(x) for d in re.findall(r' (?:d|x|y|cx|cy)="([^"]+)"', drawn.svg) for x in re.findall(r"-?[\d.]+", d)
    ]
    assert all(-1 <= value <= max(WIDTH, HEIGHT) for value in places)


def test_words_are_escaped_and_turn_no_text() -> None:
    drawn = Plot(HOSTILE, linear(HOSTILE, [1.0]), linear(HOSTILE, [1.0]))
    drawn.dots([(0.5, 0.5, HOSTILE)], HOSTILE, 0)
    drawn.mark(0.5, HOSTILE)
    drawn.levels([(HOSTILE, 0.5)])
    for svg in (drawn.svg, bars(HOSTILE, HOSTILE, [Bar(HOSTILE, 1.0)])):
        ET.fromstring(svg)  # noqa: S314 - our own
        assert "<script" not in svg
        assert not re.search(r"[\x00-\x08\x1b\u202e]", svg)


def test_a_heatmap_leaves_empty_cells_out_and_darkens_full_ones() -> None:
    drawn = plot()
    drawn.cells([0, 5, 10], [0, 50, 100], [[0, 1], [1000, 0]])
    opacities = [float(each) for each in re.findall(r'fill-opacity="([\d.]+)"', drawn.svg)]
    assert len(opacities) == 2
    assert min(opacities) < max(opacities) == 1
    plot().cells([0, 1], [0, 1], [[0]])
