"""Documents as articles: a module for each kind, here or in its room. Reads documents only.

A module has `article(saved)`; `records(saved)`, the rows of a spreadsheet; and `checks(saved)`, what a pipeline asks.
Of several documents side by side it has the article alone: rows and checks are those of each part.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from servemark.errors import ResultError
from servemark.plugins import module_of, names_in
from servemark.results.saved import Saved
from servemark.views.blocks import Article, Check

ELSEWHERE = {"kernels": ("kernels.views", "article")}
"""The module of a kind that belongs to another room."""
Record = Mapping[str, Any]


class Kind(Protocol):
    """A module of a kind. Its functions raise KeyError, TypeError where a document is damaged."""

    def article(self, saved: Saved) -> Article:
        """Compose what a reader sees."""

    def records(self, saved: Saved) -> Sequence[Record]:
        """Return the rows of a spreadsheet: units stand in the keys."""

    def checks(self, saved: Saved) -> Sequence[Check]:
        """List what was judged."""


def kinds() -> list[str]:
    """The kinds of documents that can be shown."""
    return sorted([*ELSEWHERE, *names_in(__name__)])


def kind_of(saved: Saved) -> Kind:
    """Return the module of a document's kind. Raises ResultError."""
    if saved.kind not in kinds():
        raise ResultError(
            f"{saved.name} is of the kind {saved.kind!r}, which has no report", fix=f"name one of: {', '.join(kinds())}"
        )
    found: Kind = module_of(*ELSEWHERE.get(saved.kind, (__name__, saved.kind)))
    return found
