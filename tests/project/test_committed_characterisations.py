"""Committed characterisations follow today's rules: the few, their claim and the page are made anew from the rows."""

from pathlib import Path

import pytest

from servemark.characterise.analysis import analyse
from servemark.paths import CHECKOUT
from servemark.results.saved import read_saved
from servemark.results.schema.characterisation import Characterisation
from servemark.stats.unknown import Unknown
from servemark.views.render.markdown import to_markdown

FILES = sorted((CHECKOUT / "docs" / "results").glob("characterise_*.json"))
HOW = "servemark report docs/results/{0}.json --format md, below the first lines of docs/results/{0}.md"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_characterisation_and_its_page_are_those_of_today(file: Path) -> None:
    saved = read_saved(file)
    document = saved.of(Characterisation)
    analysis, prediction = analyse(document)
    if analysis is None or isinstance(analysis, Unknown):  # too few workloads
        assert document["analysis"] is None
        assert document["prediction"] is None
    else:
        assert document["analysis"] is not None
        assert document["analysis"]["chosen"] == analysis["chosen"]
        assert document["prediction"] == prediction
    page = file.with_suffix(".md").read_text()
    assert page.endswith(to_markdown([saved])), HOW.format(file.stem)
