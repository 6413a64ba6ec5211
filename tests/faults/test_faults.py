"""The campaign of faults: what it calls survived, and its faults for real, three of them always."""

import dataclasses
import math
from typing import Any

import pytest

from tests.faults.__main__ import MODULES, ROWS, Outcome, page
from tests.faults.generator import LOAD, Rig
from tests.faults.registry import FAULTS, Expected, Fault, Seen

MEASURED = {
    "figures": {"requests.answered": {"value": 90}, "generator.requests_outside_interval": {"value": 7}},
    "details": {"errors": {"by_kind": {"timeout": 10}}},
}


def verdict(*failed: str) -> dict[str, Any]:
    return {"constraints": [{"name": name, "ok": False} for name in failed]}


def result(**changes: Any) -> dict[str, Any]:
    return {"partial": False, **MEASURED, "verdict": verdict("error_rate"), **changes}


def fault(**changes: Any) -> Fault:
    return Fault(1, "f", "a | b", "by hand", Expected(kinds=("timeout",), **changes), lambda _: seen())


def seen(**changes: Any) -> Seen:
    measured = result(verdict=verdict("error_rate", "other_load"))
    return dataclasses.replace(Seen(2, 5.0, 3.0, "said so", measured, [], 107), **changes)


def test_what_is_as_expected_survived() -> None:
    assert [*fault(says="said").troubles(seen())] == []


@pytest.mark.parametrize(
    ("expected", "found", "trouble"),
    [
        ({}, {"code": 99}, "exit code 99"),
        ({"result": "partial"}, {}, "the result is whole"),
        ({}, {"result": None}, "the result is none"),
        ({}, {"output": "Traceback (most recent call last)"}, "a traceback"),
        ({"says": "disk"}, {}, "does not say 'disk'"),
        ({}, {"result": result(details={"errors": {"by_kind": {}}})}, "no timeout"),
        ({}, {"result": result(figures=None)}, "no figures"),
        ({}, {"received": 108}, "108 requests came to the server, the result speaks of 107"),
        ({}, {"received": 96}, "96 requests came to the server, the result speaks of 107"),
        ({}, {"result": result(verdict=verdict("other_load"))}, "error_rate holds"),
        ({}, {"result": result(verdict=verdict("error_rate", "server_alive"))}, "server_alive failed"),
        ({"fails": "generator_pause"}, {}, "generator_pause holds"),
        ({"within_s": 4}, {}, "took 5 s"),
        ({"growth_mib": 2}, {}, "grew by 3 MiB"),
        ({}, {"left": ["1 processes left: [7]"]}, "1 processes left: [7]"),
    ],
)
def test_what_is_not_is_named(expected: dict[str, Any], found: dict[str, Any], trouble: str) -> None:
    assert trouble in [*fault(**expected).troubles(seen(**found))]


def test_kinds_that_were_not_expected_are_named() -> None:
    other = dataclasses.replace(fault(), expected=Expected())
    assert [*other.troubles(seen())] == ["also timeout"]
    assert [*dataclasses.replace(fault(), expected=Expected(kinds=None)).troubles(seen())] == []


def test_every_row_of_the_table_has_faults_and_each_a_name_of_its_own() -> None:
    assert {found.inject.__module__ for found in FAULTS} == {module.__name__ for module in MODULES}
    assert {*ROWS} <= {found.row for found in FAULTS}
    assert len({found.name for found in FAULTS}) == len(FAULTS)


def test_the_page_counts_rows_and_runs() -> None:
    names = [("dead", []), ("dead-run", ["lost"]), ("reset", [])]
    text = page([Outcome(name, seen().words(), troubles, "abc", 1.0) for name, troubles in names])
    assert "**1 of 2 rows survived** (1 to 25), in all 2 of 3 runs." in text
    assert "| 2 | the server resets connections | golden server, every 10th request | exit 2 by `error_rate`" in text
    assert (
        "| exit 2 by `error_rate`, `other_load`, 90 good, 10 `timeout`, result whole; +3 MiB, 5 s | NO: lost |" in text
    )


QUICK = {"dead", "deep-error", "fixed32"}


@pytest.fixture(scope="module")
def rigs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Rig]:
    """One for the quick ones, with enough requests for every tenth to be a bad one, and the usual one for the others.

    Each measures the usual memory once.
    """
    loads = {True: ["--request-rate", "200"], False: LOAD}
    return {quick: Rig(tmp_path_factory.mktemp("faults"), load) for quick, load in loads.items()}


@pytest.mark.parametrize(
    "found", [pytest.param(each, id=each.name, marks=[] if each.name in QUICK else pytest.mark.slow) for each in FAULTS]
)
def test_a_run_survives(found: Fault, rigs: dict[bool, Rig]) -> None:
    """`python -m tests.faults` runs all of them side by side, and writes the page."""
    if quick := found.name in QUICK:  # on a busy machine too
        found = dataclasses.replace(found, expected=dataclasses.replace(found.expected, within_s=math.inf))
    outcome = found.inject(rigs[quick])
    assert [*found.troubles(outcome)] == [], outcome.output[-3000:]
