"""The shape that all documents share: an answer, own sections, and behind them the circumstances."""

from collections.abc import Sequence
from typing import Any

from servemark.views.blocks import Article, Badge, Block, Section
from servemark.views.plots.circumstances import environment, made

FAILED, PARTIAL = Badge("FAILED", "bad"), Badge("PARTIAL", "bad")
_TONES = {"better": "good", "same": "good", "not worse": "good", "trusted": "good"}
_TONES |= {"worse": "bad", "missed": "bad", "not trusted": "bad"}
"""Of outcomes; any other is open."""


def shaped(
    document: Any,
    *,
    about: str,
    answer: str,
    sections: Sequence[Section],
    explained: Sequence[str] = (),
    badges: Sequence[Badge] = (),
    outcome: str = "",
    failed: object = False,
    before_environment: Sequence[Block] = (),
) -> Article:
    """Compose the article of a document, which says itself if it is partial; `failed`: if any part of it did.

    `outcome` is the word for what a campaign or a difference came to, where there is one.
    """
    came_to = [Badge(outcome.upper(), _TONES.get(outcome, "open"))] if outcome else []
    return Article(
        about=about,
        answer=answer,
        explained=explained,
        sections=[*sections, Section("Environment", lambda: [*before_environment, *environment(document)])],
        badges=[*badges, *came_to, *([FAILED] if failed else []), *([PARTIAL] if document.get("partial") else [])],
        made=made(document),
    )
