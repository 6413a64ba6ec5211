"""Documents of each kind as a reader has them, beside snapshots: on the terminal, as a page, as rows and as checks.

After a change that is meant, `SERVEMARK_SNAPSHOTS=write pytest tests/servemark/views/test_snapshots.py` writes them
anew, and their diff shows what readers will see.
"""

import copy
import csv
import io
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

from servemark.output import EVERYTHING, NOTES, SAYS
from servemark.results.saved import Saved
from servemark.views.render.html import page
from servemark.views.render.programs import to_csv, to_junit
from servemark.views.verdict import answer
from tests.servemark.views.snapshots import assert_unchanged
from tests.servemark.views.variations import PAGES, headlines, variations
from tests.support.rendering import shown
from tests.support.saved_documents import NAMES

HERE: dict[str, Any] = {
    "hostname": "host",
    "cpu": "a CPU",
    "cores": 2,
    "gpus": [],
    "os": "an OS",
    "python": "3",
    "packages": {"numpy": "1"},
    "git_commit": "c" * 40,
    "git_dirty": False,
}
FIXED: dict[str, Any] = {"created": "2026-01-01T00:00:00+00:00", "command": ["servemark", "run"], "environment": HERE}
BESIDE = {"created", "hostname", "cpu", "cores", "git_commit", "git_dirty", "gpus", "created_utc"}
"""Columns of the circumstances, which are those of FIXED."""


class Words(HTMLParser):
    """The words of a page, a line for each block or row; of a drawing its words too, and its marks by their style."""

    LINES: ClassVar = {"p", "h1", "h2", "h3", "li", "tr", "dt", "dd", "summary", "caption", "figcaption", "svg"}
    BETWEEN: ClassVar = {"td": " | ", "th": " | ", "text": "; ", "title": "; ", "span": " "}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._line, self._silent = "", 0
        self._marks = Counter[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag in {"style", "script"}:
            self._silent += 1
        elif tag == "svg":
            self._end()
            self._line = f"drawing: {known['aria-label']}: "
        elif tag in {"circle", "path", "rect"}:
            self._marks[str(known["class"])] += 1
        elif tag == "i" or re.search("marked|badge ", str(known.get("class"))):
            self._line += f"[{known['class']}] "

    def handle_endtag(self, tag: str) -> None:
        if tag in {"style", "script"}:
            self._silent -= 1
        elif tag == "svg":
            self._line += ", ".join(f"{count} {style}" for style, count in sorted(self._marks.items()))
            self._marks.clear()
        self._line += self.BETWEEN.get(tag, "")
        if tag in self.LINES:
            self._end()

    def handle_data(self, data: str) -> None:
        self._line += "" if self._silent else data

    def _end(self) -> None:
        if said := " ".join(self._line.split()).strip(" |;"):
            self.lines.append(said)
        self._line = ""


def words_of(saved: Saved) -> list[str]:
    """The lines of its page but for the last, which has the version."""
    return Words(page("a title", [saved])).lines[:-1]


def frozen(saved: Saved) -> Saved:
    """The same without what differs between machines: circumstances, exports, and places by t-SNE."""
    return Saved(saved.name, _frozen(copy.deepcopy(saved.document)), saved.folder, tuple(map(frozen, saved.parts)))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return [_frozen(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _frozen(each) for key, each in value.items()}
    if "schema_version" in found:
        found |= FIXED
    if found.get("kind") == "load":
        found |= {"precision": found["precision"] or "fp32", "artifact_sha256": None}
    if "tsne" in found:
        number = len(found["workload"])
        found |= {"pca": [number, -number], "tsne": [-number, number]}
    if "tsne_agreement" in found:
        found |= {"pca_share": 0.9, "silhouettes": {"2": 0.9, "3": 0.5}, "tsne_agreement": [1.0, 0.9]}
    return found


def terminal(saved: Saved, monkeypatch: pytest.MonkeyPatch, volume: str) -> str:
    monkeypatch.setenv(SAYS, volume)
    return "\n".join(line.rstrip() for line in shown(saved).splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_is_shown_as_it_was(name: str, saved: dict[str, Saved], monkeypatch: pytest.MonkeyPatch) -> None:
    found = frozen(saved[name])
    parts = ["== terminal", terminal(found, monkeypatch, NOTES)]
    parts += ["== terminal, everything", terminal(found, monkeypatch, EVERYTHING), "== page", *words_of(found)]
    if not found.parts:
        rows = list(csv.DictReader(io.StringIO(to_csv([found]))))
        shown_of = [(number, key, row[key]) for number, row in enumerate(rows) for key in row if key not in BESIDE]
        parts += ["== rows", *(f"{number} {key}: {value}" for number, key, value in shown_of)]
        parts += ["== checks", to_junit([found])]
    assert_unchanged(name, "\n".join(parts), saved["open"].folder and saved["open"].folder.parent)


def test_the_first_line_is_as_the_snapshot_has_it() -> None:
    assert_unchanged("headlines", "\n".join(f"{name}: {answer(result)}" for name, result in headlines().items()))


def test_what_few_documents_have_is_shown_as_the_snapshot_has_it(
    saved: dict[str, Saved], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for name, found in variations(saved, tmp_path).items():
        fixed = frozen(found)
        for volume in (NOTES, EVERYTHING):
            parts += [f"== {name}, {volume}", terminal(fixed, monkeypatch, volume)]
        if name in PAGES:
            parts += [f"== {name}, page", *words_of(fixed), f"== {name}, checks", to_junit([fixed])]
    assert_unchanged("variations", "\n".join(parts))
