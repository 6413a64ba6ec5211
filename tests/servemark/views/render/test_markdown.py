"""Markdown for a pull request: the answer, tables, and words that format nothing."""

import copy
from pathlib import Path

import pytest

from servemark.results.saved import Saved
from servemark.views.kinds import kind_of
from servemark.views.render.markdown import escaped, to_markdown
from tests.support.saved_documents import run


def test_the_answer_comes_first_and_tables_are_whole(saved: dict[str, Saved]) -> None:
    for each in saved.values():
        found = kind_of(each).article(each)
        lines = to_markdown([each]).splitlines()
        assert lines[0] == f"### {escaped(found.answer)}"
        tables = [line for line in lines if line.startswith("|")]
        assert tables or each.kind == "saved_comparison"
        widths = {line.replace("\\|", "").count("|") for line in tables}
        assert min(widths) >= 3
        assert not [line for line in lines if "<svg" in line]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a|b", r"a\|b"),
        ("[click](https://evil)", r"\[click\](https:&#47;&#47;evil)"),
        ("@everyone #12", r"&#64;everyone \#12"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("two\nlines", "two lines"),
        ("**bold** `code`", r"\*\*bold\*\* \`code\`"),
    ],
)
def test_words_format_nothing(words: str, shown: str) -> None:
    assert escaped(words) == shown


def test_a_server_s_words_are_escaped(tmp_path: Path) -> None:
    found = run(tmp_path / "a")
    document = copy.deepcopy(found.document)
    document["details"]["errors"]["messages"] = {"http_500": ["<script>@team|"]}
    text = to_markdown([Saved("a", document, found.folder)])
    assert "<script>" not in text
    assert "@team" not in text
