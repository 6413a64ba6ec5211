"""The shape that all documents share: an answer, own sections, and behind them the circumstances."""

from collections.abc import Sequence
from typing import Any

from servemark.views.blocks import Article, Badge, Block, Section
from servemark.views.plots.circumstances import environment, made

FAILED, PARTIAL = Badge("FAILED", "bad"), Badge("PARTIAL", "bad")


def shaped(
    document: Any,
    *,
    about: str,
    answer: str,
    sections: Sequence[Section],
    explained: Sequence[str] = (),
    badges: Sequence[Badge] = (),
    failed: object = False,
    before_environment: Sequence[Block] = (),
) -> Article:
    """Compose the article of a document, which says itself if it is partial; `failed`: if any part of it did."""
    return Article(
        about=about,
        answer=answer,
        explained=explained,
        sections=[*sections, Section("Environment", lambda: [*before_environment, *environment(document)])],
        badges=[*badges, *([FAILED] if failed else []), *([PARTIAL] if document.get("partial") else [])],
        made=made(document),
    )
