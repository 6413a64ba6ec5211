"""Bars have their intervals; an icicle's parts stand below what they are of, as wide as their share."""

from xml.etree import ElementTree as ET

import pytest

from servemark.views.charts import Bar, Branch, bars, icicle
from servemark.views.drawing import WIDTH


def test_a_bar_has_its_interval_and_nothing_where_nothing_is_known() -> None:
    drawn = [Bar("a", 1.2, (1.1, 1.3)), Bar("b", None), Bar("c", 1.0, hollow=True)]
    svg = bars("ratios", "ratio", drawn, points=True, around=[0.5, 2.0])
    assert svg.count("<circle") == 2
    assert svg.count('class="whisker"') == 1
    assert 'class="hollow c0"' in svg
    assert svg.count('class="mark"') == 1  # at 1


def boxes_of(root: Branch) -> dict[str, ET.Element]:
    svg = ET.fromstring(icicle("time", root))  # noqa: S314 - our own
    return {(box.findtext("title") or "").partition(":")[0]: box for box in svg.iter("rect")}


def test_parts_lie_below_their_whole() -> None:
    root = Branch("all")
    root.grow(["layer1", "layer1.0"], Branch("conv", 3.0, 0))
    root.grow(["layer1"], Branch("relu", 1.0, 4))
    root.grow([], Branch("rest", 4.0))
    boxes = boxes_of(root)
    assert root.value == 8.0
    assert float(boxes["layer1"].get("width", "")) == pytest.approx(WIDTH / 2, abs=1.1)
    assert float(boxes["relu"].get("x", "")) == pytest.approx(WIDTH * 3 / 8)
    assert float(boxes["rest"].get("x", "")) == pytest.approx(WIDTH / 2)
    assert [float(boxes[name].get("y", "")) for name in ("all", "layer1", "layer1.0", "conv")] == [0, 22, 44, 66]


def test_words_are_escaped_and_nothing_breaks_without_time() -> None:
    root = Branch("all")
    root.grow([], Branch("<b>", 1.0))
    assert "<b>" in boxes_of(root)
    assert not boxes_of(Branch("all", 0.0))
