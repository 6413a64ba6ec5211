"""Pages of every kind of document: the answer first, every plot with its numbers, every word escaped."""

import copy
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from servemark.errors import ResultError
from servemark.results.saved import Saved
from servemark.views.blocks import Checks, Figure, Table
from servemark.views.kinds import kind_of, kinds
from servemark.views.kinds.run import heading
from servemark.views.render.html import page
from servemark.views.verdict import answer
from tests.support.saved_documents import NAMES, run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\"'&{{ 7 * 7 }}"
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

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

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
def test_every_plot_has_its_numbers(name: str, saved: dict[str, Saved]) -> None:
    found = kind_of(saved[name]).article(saved[name])
    for section in found.sections:
        for block in section.drawn:
            table = block.table if isinstance(block, Figure) else block
            if isinstance(table, Table):
                assert table.rows
                assert all(len(row) == len(table.head) for row in table.rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_word_is_escaped(name: str, saved: dict[str, Saved]) -> None:
    words = {
        "workload",
        "label",
        "text",
        "remedy",
        "name",
        "hostname",
        "cpu",
        "reason",
        "failure",
        "evidence",
        "engine",
    }
    document = _hostile(copy.deepcopy(saved[name].document), words)
    parts = tuple(Saved(HOSTILE, part.document, part.folder) for part in saved[name].parts)
    text = page(HOSTILE, [Saved(HOSTILE, document, saved[name].folder, parts)])
    elements = Elements(text)
    assert (elements.count("script"), elements.count("img")) == (1, 0)
    assert "&lt;img src=x onerror" in text
    assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in text.replace("&#39;", "'")


def _hostile(value: Any, keys: set[str], key: str = "") -> Any:
    """The document with hostile words under these keys."""
    if isinstance(value, dict):
        return {each: _hostile(below, keys, each) for each, below in value.items()}
    if isinstance(value, list):
        return [_hostile(below, keys) for below in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) and key in keys else value


def test_a_server_s_words_are_escaped(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    saved.document["details"]["errors"]["messages"] = {"http_500": [HOSTILE]}
    text = page("x", [saved])
    assert "first: &lt;/script&gt;" in text
    assert Elements(text).count("script") == 1


def test_the_answer_comes_first_in_the_terminal_s_words(saved: dict[str, Saved]) -> None:
    result: Any = saved["open"].document
    found = kind_of(saved["open"]).article(saved["open"])
    assert (found.answer, found.about) == (answer(result), heading(result))
    assert [badge.word for badge in found.badges] == ["VALID" if result["verdict"]["valid"] else "INVALID", "MET"]
    text = page("x", [saved["open"]])
    assert text.index(found.answer) < text.index("<h2")


def test_what_does_not_hold_names_its_remedy(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    saved.document["verdict"]["constraints"][0] |= {"ok": False, "remedy": "do this"}
    [verdict] = [section for section in kind_of(saved).article(saved).sections if section.title == "Verdict"]
    [found] = [each for each in verdict.drawn if isinstance(each, Checks)]
    assert "do this" in found.table.rows[0]
    assert found.table.marked == [0]


def test_a_reduced_precision_is_plotted_against_its_speed(saved: dict[str, Saved]) -> None:
    assert "Speed against agreement" not in page("x", [saved["comparison"]])
    document = copy.deepcopy(saved["comparison"].document)
    row = document["rows"][1]
    row |= {"precision": "int8"}
    row["output_agreement"] |= {"cosine_min": 0.976, "tolerance": {"min_cosine": 0.9}}
    text = page("x", [Saved("c", document)])
    assert "smallest cosine over speed" in text
    assert "random weights: agreement with fp32, no accuracy" in text
    assert "tolerance 0.9" in text
    row["output_agreement"] |= {"cosine_min": None, "tolerance": {"min_match": 0.5}}
    assert "share with the same first choice" in page("x", [Saved("c", document)])


def test_several_documents_have_a_list_of_them(saved: dict[str, Saved]) -> None:
    text = page("x", [saved["open"], saved["comparison"]])
    assert text.count("<article") == 2
    assert 'href="#result-2"' in text


def test_what_has_no_report_is_refused_by_name() -> None:
    with pytest.raises(ResultError, match="of the kind 'kernel', which has no report"):
        page("x", [Saved("k", {"kind": "kernel"})])
    with pytest.raises(ResultError, match="cannot be read"):
        page("x", [Saved("k", {"kind": "suite"})])
