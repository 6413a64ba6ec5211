"""Committed characterisations follow today's rules: the few and their claim are made anew from the rows."""

from pathlib import Path

import pytest

from servemark.characterise.analysis import analyse
from servemark.paths import CHECKOUT
from servemark.results.saved import read_saved
from servemark.results.schema.suite import Characterisation
from servemark.stats.unknown import Unknown

FILES = sorted((CHECKOUT / "docs" / "results").glob("characterise_*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_characterisation_is_that_of_today(file: Path) -> None:
    document = read_saved(file).of(Characterisation)
    analysis, prediction = analyse({**document, "seeds": 1})  # they change where t-SNE draws a workload, and no more
    if analysis is None or isinstance(analysis, Unknown):  # too few workloads
        assert document["analysis"] is None
        assert document["prediction"] is None
    else:
        assert document["analysis"] is not None
        assert document["analysis"]["chosen"] == analysis["chosen"]
        assert document["prediction"] == prediction
