"""Pages of every kind of document: one file that fetches nothing, words that are escaped; and its Markdown."""

import copy
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from servemark.errors import ResultError
from servemark.results.saved import Saved
from servemark.views.kinds import kind_of, kinds
from servemark.views.render.html import page
from servemark.views.render.markdown import escaped, to_markdown
from tests.support.saved_documents import NAMES

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\"'&{{ 7 * 7 }}"
WORDS = {"workload", "label", "text", "remedy", "name", "hostname", "cpu", "reason", "failure", "evidence", "engine"}
WORDS |= {"http_500"}
"""Keys of words that somebody else may have written: a server, or a file."""
VOID = {"meta", "link", "br", "img"}


class Elements(HTMLParser):
    """Counts elements, and checks that each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.tags)


def test_every_kind_is_tested(saved: dict[str, Saved]) -> None:
    assert {each.kind for each in saved.values()} == set(kinds())
    assert set(saved) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_small_file_that_fetches_nothing(name: str, saved: dict[str, Saved]) -> None:
    text = page("a title", [saved[name]])
    elements = Elements(text)
    assert len(text) < 200_000
    assert not [
        attrs for _, attrs in elements.tags if "src" in attrs or str(attrs.get("href", "#"))[:1] not in {"#", "d"}
    ]
    assert "://" not in re.sub(r"https?://(127\.0\.0\.1|h)\b", "", re.sub(r'xmlns="[^"]+"', "", text))
    assert elements.count("figure") == elements.count("svg") > 0 or name in {"mlperf", "quality", "calibration"}
    assert elements.count("h1") == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_word_is_escaped(name: str, saved: dict[str, Saved]) -> None:
    document = _hostile(copy.deepcopy(saved[name].document))
    parts = tuple(Saved(HOSTILE, part.document, part.folder) for part in saved[name].parts)
    found = Saved(HOSTILE, document, saved[name].folder, parts)
    text = page(HOSTILE, [found])
    elements = Elements(text)
    assert (elements.count("script"), elements.count("img")) == (1, 0)
    assert "&lt;img src=x onerror" in text
    assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in text.replace("&#39;", "'")
    assert not re.search(r"<(script|img)|\u202e", to_markdown([found]))


def _hostile(value: Any, key: str = "") -> Any:
    """The document with hostile words under the keys of WORDS."""
    if isinstance(value, dict):
        return {each: _hostile(below, each) for each, below in value.items()}
    if isinstance(value, list):
        return [_hostile(below, key) for below in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) and key in WORDS else value


def test_several_documents_have_a_list_of_them(saved: dict[str, Saved]) -> None:
    text = page("x", [saved["open"], saved["comparison"]])
    assert text.count("<article") == 2
    assert 'href="#result-2"' in text


def test_what_has_no_report_is_refused_by_name() -> None:
    with pytest.raises(ResultError, match="of the kind 'kernel', which has no report"):
        page("x", [Saved("k", {"kind": "kernel"})])
    with pytest.raises(ResultError, match="cannot be read"):
        page("x", [Saved("k", {"kind": "suite"})])


def test_in_markdown_the_answer_comes_first_and_tables_are_whole(saved: dict[str, Saved]) -> None:
    for each in saved.values():
        lines = to_markdown([each]).splitlines()
        assert lines[0] == f"### {escaped(kind_of(each).article(each).answer)}"
        tables = [line for line in lines if line.startswith("|")]
        assert min(line.replace("\\|", "").count("|") for line in tables) >= 3
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
