"""A characterisation's article: the few and their test, AIBench's figures beside ours, failures told."""

import csv
import io

import pytest

from servemark.characterise.tables import every
from servemark.results.saved import Saved
from servemark.views.kinds import characterisation
from servemark.views.render.html import page
from servemark.views.render.markdown import to_markdown
from tests.support.characterised import NAMES, document


@pytest.fixture
def saved() -> Saved:
    return Saved("c", dict(document()))


def test_the_answer_names_the_few_and_their_error(saved: Saved) -> None:
    answer = characterisation.article(saved).answer
    assert "stand for 6 workloads; they predict the ratios of the others within a factor of 1.00" in answer


def test_all_figures_are_drawn_with_what_aibench_prints(saved: Saved) -> None:
    text = page("a title", [saved])
    for words in ("(Figure 2)", "(Figure 4)", "(Figure 5)", "(Figure 6)", "(Figure 7)", "(Table 5)", "(Table 6)"):
        assert words in text
    assert "30 functions take more than 10 %" in text
    assert text.count("<svg") >= 6


def test_failures_and_other_work_are_told(saved: Saved) -> None:
    text = to_markdown([saved])
    assert "openvino: it is not there" in text
    assert "other work took 30% of the cores" in text
    assert [check.ok for check in characterisation.checks(saved)].count(False) == 1


def test_data_are_plain_numbers() -> None:
    found = every(document())
    rows = [*csv.DictReader(io.StringIO(found["table_5"].to_csv()))]
    assert {row["workload"] for row in rows} == {*NAMES}
    assert float(rows[0]["CoV of p50"]) == pytest.approx(0.0129 / 1.015, rel=0.01)
    assert rows[0]["CoV of energy"] == ""
    shares = [[float(value or 0) for value in row[2:]] for row in found["figure_5"].rows]
    assert [sum(row) for row in shares] == pytest.approx([1] * len(shares))
    hotspots = {row[0]: row[1:] for row in found["figure_6"].rows}
    assert hotspots["all of them"] == [6, 6, 6, 0, 3]
    ranking = next(row for row in found["table_6"].rows if row[0] == "ranking")
    assert ranking[4:] == [32.0, 40.0, 0.47]
