"""The page on security names a test for each thing that is not trusted, and the test exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text()
ROWS = re.findall(r"^\| .+ \| .+ \| (.+) \|$", PAGE.partition("## What is not trusted")[2], re.MULTILINE)[2:]
NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")


def test_there_are_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS)
def test_a_test_stands_behind_each_line(row: str) -> None:
    named = NAMED.fullmatch(row)
    assert named, f"{row} is not `FILE::TEST`"
    tree = ast.parse((ROOT / named[1]).read_text())
    assert named[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
