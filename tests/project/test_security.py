"""The section on security names a test for each thing that is not trusted, and the test exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
SECTION = PAGE.partition("### What is not trusted\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| .+ \| .+ \| (.+) \|$", SECTION, re.MULTILINE)[2:]
ATTACKS_PAGE = (ROOT / "docs" / "results" / "attacks.txt").read_text()
ATTACKS = re.findall(
    r"^\| .+ \| .+ \| (\d+) \| .+ \| `(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)` \|$", ATTACKS_PAGE, re.MULTILINE
)
GOAL = 200
NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")


def test_there_are_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS)
def test_a_test_stands_behind_each_line(row: str) -> None:
    named = NAMED.fullmatch(row)
    assert named, f"{row} is not `FILE::TEST`"
    assert exists(named[1], named[2])


def exists(file: str, test: str) -> bool:
    tree = ast.parse((ROOT / file).read_text())
    return test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: row[2])
def test_a_test_performs_each_attack(row: tuple[str, str, str], request: pytest.FixtureRequest) -> None:
    """In the whole suite pytest has collected its cases, each attack in one way or in several."""
    number, file, test = row
    assert exists(file, test)
    cases = sum(item.nodeid.partition("[")[0] == f"{file}::{test}" for item in request.session.items)
    assert cases % int(number) == 0, f"{test} has {cases} cases"


def test_attacks_are_counted() -> None:
    numbers = [int(number) for number, _, _ in ATTACKS]
    assert f"**{sum(numbers)} attacks, {len(numbers)} tests.**" in ATTACKS_PAGE
    assert sum(numbers) >= GOAL
    assert len({row[1:] for row in ATTACKS}) == len(ATTACKS)
