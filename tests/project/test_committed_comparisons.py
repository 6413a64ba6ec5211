"""Committed comparisons follow today's rules: intervals are made anew from their rounds, and the page quotes them.

Verdicts of single rounds need the rounds themselves, which are not committed.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from servemark.cli._report import read_all
from servemark.paths import CHECKOUT
from servemark.results.schema.comparison import ComparisonDocument, ComparisonTurn
from servemark.stats.histogram import Histogram
from servemark.stats.ratios import holm, ratio_of_pairs

RESULTS = CHECKOUT / "docs" / "results"
COMPARISONS = sorted(RESULTS.rglob("compare_*.json"))
ON_CPU = sorted(RESULTS.glob("compare_*.json"))
PAGE = (RESULTS / "README.md").read_text()


def read(file: Path) -> ComparisonDocument:
    [saved] = read_all([file])
    return saved.of(ComparisonDocument)


def both(one: ComparisonTurn, other: ComparisonTurn, figure: str) -> tuple[float, float]:
    left: Mapping[str, Any] = one
    right: Mapping[str, Any] = other
    return left[figure], right[figure]


def test_there_are_comparisons() -> None:
    assert COMPARISONS


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


@pytest.mark.parametrize("file", ON_CPU, ids=lambda file: file.stem)
def test_the_page_quotes_each_comparison(file: Path) -> None:
    """A row of the page: the first side's p50, and each other side's ratio to it with its interval.

    A side whose export is refused has no ratio.
    """
    first, *others = read(file)["rows"]
    [row] = re.findall(rf"^\| \[\w+\]\({file.name}\) \|(.*) \|$", PAGE, re.MULTILINE)
    p50, *ratios, _ = (cell.strip() for cell in row.split("|") if cell.strip() != "refused")
    assert float(p50.removesuffix(" ms")) == pytest.approx(first["latency_ms"]["p50"], rel=1e-3)
    for quoted, other in zip(ratios, others, strict=True):
        ratio = other["ratio"]["p50"]
        assert ratio is not None
        assert ratio["ci95"] is not None
        low, high = ratio["ci95"]
        assert quoted.replace("*", "") == f"{ratio['value']:.2f} ({low:.2f} to {high:.2f})"
