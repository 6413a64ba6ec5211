"""Documents as articles: a module for each kind, or for several of one shape. Reads documents only.

A module has `article(saved)`; `records(saved)`, the rows of a spreadsheet; and `checks(saved)`, what a pipeline asks.
Of several documents side by side it has the article alone: rows and checks are those of each part.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from servemark.errors import ResultError
from servemark.results.saved import Saved
from servemark.views.blocks import Article, Check

Record = Mapping[str, Any]
_MODULES = {
    # Runs: one load on one subject.
    "load": "run",
    "mlperf": "run",
    "quality": "quality",
    "series": "series",
    # Campaigns: subjects and rounds of runs, with what is said of them.
    "comparison": "comparison",
    "tuning": "tuning",
    "suite": "suite",
    "calibration": "calibration",
    "characterisation": "characterisation",
    "suites": "characterisation",
    "synthesis": "synthesis",
    # Profiles: one inference, or kernels, by part.
    "profile": "profile",
    "kernels": "kernels.views",
    # Differences: saved ones judged.
    "saved_comparison": "difference",
    "history": "difference",
}
"""The module of each kind, by shape: of this package, or with its path of another room."""


class Kind(Protocol):
    """A module of a kind. Its functions raise KeyError, TypeError where a document is damaged."""

    def article(self, saved: Saved) -> Article:
        """Compose what a reader sees."""

    def records(self, saved: Saved) -> Sequence[Record]:
        """Return the rows of a spreadsheet: units stand in the keys."""

    def checks(self, saved: Saved) -> Iterable[Check]:
        """List what was judged."""


def kinds() -> list[str]:
    """Return the kinds of documents that can be shown."""
    return sorted(_MODULES)


def kind_of(saved: Saved) -> Kind:
    """Return the module of a document's kind. Raises ResultError."""
    if saved.kind not in _MODULES:
        raise ResultError(
            f"{saved.name} is of the kind {saved.kind!r}, which has no report", fix=f"name one of: {', '.join(kinds())}"
        )
    module = _MODULES[saved.kind]
    found: Any = importlib.import_module(module if "." in module else f"{__name__}.{module}")
    kind: Kind = found
    return kind
