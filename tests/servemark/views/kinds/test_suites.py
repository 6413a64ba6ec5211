"""Suites side by side: each bar is the mean of its workloads, each workload a dot of its suite."""

from pathlib import Path

import msgspec
import pytest

from servemark.results.saved import Saved
from servemark.views.kinds import suites
from servemark.views.render.html import page
from servemark.views.render.markdown import to_markdown
from tests.support.characterised import CONVOLUTIONS, NAMES, side_by_side
from tests.support.command_line import Servemark


@pytest.fixture
def saved() -> Saved:
    return side_by_side()


def test_a_bar_is_the_mean_of_the_workloads(saved: Saved) -> None:
    found = suites.article(saved)
    assert found.answer == "aibench: 45% in convolution; today: 90% in convolution"
    text = to_markdown([saved])
    assert "| aibench | 45.0% |" in text
    assert "| today | 90.0% |" in text


def test_each_workload_is_a_dot_of_its_suite(saved: Saved) -> None:
    text = page("a title", [saved])
    assert "Parameters by work" in text
    assert text.count("GFLOP, ") == len(NAMES) + len(CONVOLUTIONS)
    assert "different machines" not in text


def test_two_machines_are_named(saved: Saved) -> None:
    saved.parts[1].document["environment"] = {**saved.parts[1].document["environment"], "cpu": "another"}
    assert "measured on different machines, so compare no times" in to_markdown([saved])


def test_records_and_checks_are_of_all(saved: Saved) -> None:
    assert {row["suite"] for row in suites.records(saved)} == {"aibench", "today"}
    assert {check.subject.partition(".")[0] for check in suites.checks(saved)} == {"aibench", "today"}


def test_report_puts_them_in_front(servemark: Servemark, saved: Saved, tmp_path: Path) -> None:
    for part in saved.parts:
        (tmp_path / f"{part.name}.json").write_bytes(msgspec.json.encode(part.document))
    told = servemark("report", *(str(tmp_path / f"{part.name}.json") for part in saved.parts), "--format", "md")
    assert told.out.startswith("### aibench: 45% in convolution; today: 90% in convolution")
