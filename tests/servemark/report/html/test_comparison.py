"""The page of a comparison."""

import json

import numpy as np
import pytest

from servemark.report.html import comparison
from servemark.report.html.comparison import page
from tests.support.rounds import document_of, rounds_of, turn


def test_the_page_needs_nothing_else() -> None:
    html = page(document_of(rounds_of(a=1, b=2), ["a", "b"], workload="<b>"))
    assert "<script src=" not in html
    assert "Plotly.newPlot" in html
    assert "&lt;b&gt; side by side" in html
    json.dumps(html)


def test_a_reduced_precision_is_plotted_against_its_speed() -> None:
    assert "speed against agreement" not in page(document_of(rounds_of(a=1, b=2), ["a", "b"]))
    turns = [turn(1, "a", 10), turn(1, "b", 5, top1=0.5, precision="int8")]
    found = turns[1].result["metrics"]["accuracy"]["output_agreement"]
    found |= {"cosine_min": 0.976, "tolerance": {"min_cosine": 0.9}}
    html = page(document_of(turns, ["a", "b"]))
    assert "speed against agreement (random weights: agreement with fp32, no accuracy)" in html
    assert "tolerance 0.9" in html
    assert "cosine 0.9760 (at least 0.9), top-1 8 of 16" in html
    found |= {"cosine_min": None, "tolerance": {"min_match": 0.5}}
    assert "share with the same first choice" in page(document_of(turns, ["a", "b"]))


@pytest.mark.parametrize("values", [(1.0, 0.8), (1.0, 1.25), (1.0, 1.0), (0.87, 2.2), (0.1, 10.0), (1.0, 100.0)])
def test_ticks_are_few_and_apart(values: tuple[float, ...]) -> None:
    ticks = comparison._ticks(values)
    assert 4 <= len(ticks) <= 8
    assert min(values) / 1.1 <= ticks[0] < ticks[-1] <= max(values) * 1.1
    steps = np.diff(np.log(ticks))
    assert min(steps) > np.log(max(values) / min(values) * 1.21) / 20
