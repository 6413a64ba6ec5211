"""The page of a comparison."""

import json

import numpy as np
import pytest

from servemark.report.html import comparison
from servemark.report.html.comparison import page
from tests.support.rounds import document_of, rounds_of


def test_the_page_needs_nothing_else() -> None:
    html = page(document_of(rounds_of(a=1, b=2), ["a", "b"], workload="<b>"))
    assert "<script src=" not in html
    assert "Plotly.newPlot" in html
    assert "&lt;b&gt; side by side" in html
    json.dumps(html)


@pytest.mark.parametrize("values", [(1.0, 0.8), (1.0, 1.25), (1.0, 1.0), (0.87, 2.2), (0.1, 10.0), (1.0, 100.0)])
def test_ticks_are_few_and_apart(values: tuple[float, ...]) -> None:
    ticks = comparison._ticks(values)
    assert 4 <= len(ticks) <= 8
    assert min(values) / 1.1 <= ticks[0] < ticks[-1] <= max(values) * 1.1
    steps = np.diff(np.log(ticks))
    assert min(steps) > np.log(max(values) / min(values) * 1.21) / 20
