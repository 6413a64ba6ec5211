"""Plots: every mark lies where its values say, words are escaped."""

import re
from xml.etree import ElementTree as ET

from servemark.views.drawing.axis import linear, logarithmic
from servemark.views.drawing.plot import HEIGHT, WIDTH, Bar, Plot, bars

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J\"'&"


def plot() -> Plot:
    return Plot("a plot", linear("s", [0.0, 10.0]), linear("ms", [0.0, 100.0]))


def coordinates(svg: str) -> list[float]:
    """Every number of a path or a place."""
    return [float(x) for d in re.findall(r' (?:d|x|y|cx|cy)="([^"]+)"', svg) for x in re.findall(r"-?[\d.]+", d)]


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    drawn = plot()
    drawn.line([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)], "p50", 0)
    [path] = re.findall(r'class="line c0" d="([^"]+)"', drawn.svg)
    assert path.count("M") == 2
    assert [key.words for key in drawn.keys] == ["p50"]


def test_a_step_holds_its_value() -> None:
    drawn = plot()
    drawn.line([(0, 10.0), (5, 20.0), (10, 20.0)], "rate", 1, stepped=True)
    [path] = re.findall(r'class="line c1" d="([^"]+)"', drawn.svg)
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+H[\d.]+V[\d.]+", path)


def test_what_lies_beyond_an_axis_stays_in_the_figure() -> None:
    drawn = plot()
    drawn.line([(-5, -1e9), (50, 1e9)], "far", 0)
    drawn.dots([(1e9, 1e9, "far")], "far", 0)
    drawn.level(1e9, "limit")
    drawn.mark(-7, "mark")
    drawn.band(-7, 1e9)
    assert all(-1 <= value <= max(WIDTH, HEIGHT) for value in coordinates(drawn.svg))


def test_words_are_escaped_and_turn_no_text() -> None:
    drawn = Plot(HOSTILE, linear(HOSTILE, [1.0]), linear(HOSTILE, [1.0]))
    drawn.dots([(0.5, 0.5, HOSTILE)], HOSTILE, 0)
    drawn.mark(0.5, HOSTILE)
    drawn.level(0.5, HOSTILE)
    for svg in (drawn.svg, bars(HOSTILE, linear(HOSTILE, [1.0]), [Bar(HOSTILE, 1.0)])):
        ET.fromstring(svg)  # noqa: S314 - our own
        assert "<script" not in svg
        assert not re.search(r"[\x00-\x08\x1b\u202e]", svg)


def test_a_bar_has_its_interval_and_nothing_where_nothing_is_known() -> None:
    axis = logarithmic("ratio", [0.5, 2.0])
    svg = bars(
        "ratios",
        axis,
        [Bar("a", 1.2, (1.1, 1.3)), Bar("b", None), Bar("c", 1.0, hollow=True)],
        points=True,
    )
    assert svg.count("<circle") == 2
    assert svg.count('class="whisker"') == 1
    assert 'class="hollow c0"' in svg
    assert svg.count('class="mark"') == 1  # at 1


def test_a_heatmap_leaves_empty_cells_out_and_darkens_full_ones() -> None:
    drawn = plot()
    drawn.cells([0, 5, 10], [0, 50, 100], [[0, 1], [1000, 0]])
    opacities = [float(each) for each in re.findall(r'fill-opacity="([\d.]+)"', drawn.svg)]
    assert len(opacities) == 2
    assert min(opacities) < max(opacities) == 1
    plot().cells([0, 1], [0, 1], [[0]])
