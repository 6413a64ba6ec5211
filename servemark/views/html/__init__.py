"""Documents as one page that needs nothing else: a module for each kind, here or in its room. Reads documents only."""

import importlib
import pkgutil
from collections.abc import Sequence

from servemark.errors import ResultError, parsing
from servemark.results.saved import Saved
from servemark.views.page.blocks import Article
from servemark.views.page.render import render_page

ELSEWHERE = {"kernels": "kernels.views.page"}
"""The module of a kind that belongs to another room."""


def kinds() -> list[str]:
    """The kinds of documents that have a page."""
    return sorted([*ELSEWHERE, *(module.name for module in pkgutil.iter_modules(__path__))])


def article(saved: Saved) -> Article:
    """One document's part of the page. Raises ResultError."""
    if saved.kind not in kinds():
        raise ResultError(
            f"{saved.name} is of the kind {saved.kind!r}, which has no report", fix=f"name one of: {', '.join(kinds())}"
        )
    module = importlib.import_module(ELSEWHERE.get(saved.kind, f"{__name__}.{saved.kind}"))
    with parsing(saved.name, ResultError, fix="name a whole result directory"):
        found: Article = module.article(saved)
    return found


def page(title: str, documents: Sequence[Saved]) -> str:
    """The page of some documents, one below the other. Raises ResultError."""
    return render_page(title, [article(saved) for saved in documents])
