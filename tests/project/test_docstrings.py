"""Docstrings begin with a verb or the thing's name, not with a clause (CONTRIBUTING.md, "Write plain English")."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from servemark.paths import CHECKOUT

CLAUSES = {"What", "Whether", "So", "Where", "How", "Why", "Which", "Who"}
BEGINNING = re.compile(rf"""["']\s*(?:{"|".join(sorted(CLAUSES))})\b""")
PACKAGES = sorted(path.parent for path in CHECKOUT.glob("*/__init__.py"))

Owner = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, those below attributes and constants included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Owner):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    text = statement.value.value
                    if isinstance(text, str):
                        yield statement.lineno, text


def clauses(source: str) -> list[tuple[int, str]]:
    """List the docstrings that begin with a clause; to parse the many files without such a text would take long."""
    if not BEGINNING.search(source):
        return []
    return [(line, text) for line, text in docstrings(source) if {*text.split()[:1]} & CLAUSES]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_docstring_begins_with_a_clause(package: Path) -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{line}: {text.splitlines()[0]}"
        for path in sorted(package.rglob("*.py"))
        for line, text in clauses(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_each_kind_of_docstring_is_read() -> None:
    source = '''"""What a module holds."""
LIMIT = 1
"""How much is allowed."""

class Thing:
    """Thing with a name."""

    size: int
    """Which size it has."""

    async def is_there(self) -> bool:
        """
        Whether it is there."""
        text = """What is only a text."""
        return bool(text)
'''
    assert [line for line, _ in clauses(source)] == [1, 3, 9, 12]
