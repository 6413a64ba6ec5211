"""Committed comparisons follow today's rules: intervals and words are made anew from their rounds.

Verdicts of single rounds need the rounds themselves, which are not committed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from servemark.cli._report import read_all, side_by_side
from servemark.paths import CHECKOUT
from servemark.results.schema.comparison import ComparisonDocument, ComparisonTurn
from servemark.stats.histogram import Histogram
from servemark.stats.ratios import holm, ratio_of_pairs
from servemark.views.render.markdown import to_markdown

RESULTS = CHECKOUT / "docs" / "results"
COMPARISONS = sorted(RESULTS.rglob("compare_*.json"))
HOW = "servemark report {0}.json --format md, below the first lines of {0}.md"


def read(file: Path) -> ComparisonDocument:
    [saved] = read_all([file])
    return saved.of(ComparisonDocument)


def both(one: ComparisonTurn, other: ComparisonTurn, figure: str) -> tuple[float, float]:
    left: Mapping[str, Any] = one
    right: Mapping[str, Any] = other
    return left[figure], right[figure]


def test_each_page_has_its_document() -> None:
    assert COMPARISONS
    assert {file.with_suffix(".md") for file in COMPARISONS} == {*RESULTS.rglob("compare_*.md")}


@pytest.mark.parametrize("file", COMPARISONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_ratios_follow_todays_rule(file: Path) -> None:
    document = read(file)
    turns = {(turn["round"], turn["label"]): turn for turn in document["turns"] if not turn["partial"]}
    rounds = range(1, document["rounds_done"] + 1)
    found, made = [], []
    for row in document["rows"][1:]:
        for figure, kept in (("p50_ms", row["ratio"]["p50"]), ("inferences_per_s", row["ratio"]["inferences_per_s"])):
            pairs = [both(turns[n, row["label"]], turns[n, document["baseline"]], figure) for n in rounds]
            slack = max(map(Histogram.resolution, min(pairs))) if figure == "p50_ms" else 0.0
            assert kept is not None
            made.append(ratio_of_pairs(pairs, slack=slack).to_dict())
            found.append(kept)
    assert [each["value"] for each in found] == pytest.approx([each["value"] for each in made])
    assert [each["ci95"] for each in found] == [pytest.approx(each["ci95"]) for each in made]
    ratios = [each for row in document["rows"] for each in row["ratio"].values() if isinstance(each, dict)]
    family = [each for each in ratios if each["p_value"] is not None]  # none with fewer than 5 rounds
    assert [each["significant"] for each in family] == holm([each["p_value"] for each in family])


@pytest.mark.parametrize("file", COMPARISONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_pages_say_what_their_documents_say(file: Path) -> None:
    page = file.with_suffix(".md").read_text()
    assert page.endswith(to_markdown(side_by_side(read_all([file])))), (
        f"made anew by {HOW.format(file.relative_to(CHECKOUT).with_suffix(''))}"
    )
