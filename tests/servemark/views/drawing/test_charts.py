"""An icicle's parts stand below what they are of, as wide as their share."""

from xml.etree import ElementTree as ET

import pytest

from servemark.views.drawing.charts import Branch, icicle
from servemark.views.drawing.plot import WIDTH


def drawn(root: Branch) -> dict[str, ET.Element]:
    svg = ET.fromstring(icicle("time", root, "ms"))  # noqa: S314 - our own
    return {(box.findtext("title") or "").partition(":")[0]: box for box in svg.iter("rect")}


def test_parts_lie_below_their_whole() -> None:
    root = Branch("all")
    root.grow(["layer1", "layer1.0"], Branch("conv", 3.0, 0))
    root.grow(["layer1"], Branch("relu", 1.0, 4))
    root.grow([], Branch("rest", 4.0))
    boxes = drawn(root)
    assert root.value == 8.0
    assert float(boxes["layer1"].get("width", "")) == pytest.approx(WIDTH / 2, abs=1.1)
    assert float(boxes["relu"].get("x", "")) == pytest.approx(WIDTH * 3 / 8)
    assert float(boxes["rest"].get("x", "")) == pytest.approx(WIDTH / 2)
    assert [float(boxes[name].get("y", "")) for name in ("all", "layer1", "layer1.0", "conv")] == [0, 22, 44, 66]


def test_words_are_escaped_and_nothing_breaks_without_time() -> None:
    root = Branch("all")
    root.grow([], Branch("<b>", 1.0))
    assert "<b>" in drawn(root)
    assert not drawn(Branch("all", 0.0))
