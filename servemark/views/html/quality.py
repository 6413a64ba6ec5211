"""A quality run as a page: the figures with their intervals, the data set, what failed."""

from servemark.results.saved import Saved
from servemark.results.schema.quality import QualityResult
from servemark.views.page.blocks import Article, Badge, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.quality import COLUMNS, answer, cells, lines, title

_BADGES = {"met": Badge("TARGET MET", "good"), "missed": Badge("TARGET MISSED", "bad")}


def article(saved: Saved) -> Article:
    """The value against the target, and what it is of."""
    result = saved.of(QualityResult)
    found = result["quality"]
    badges = [_BADGES[found["outcome"]]] if found and found["outcome"] in _BADGES else []
    return Article(
        about=title(result),
        answer=answer(result),
        sections=[
            Section("Figures", [Table(COLUMNS, [cells(figure) for figure in found["figures"]])] if found else []),
            Section("Data", [Lines(lines(result))]),
            Section("Environment", environment(result)),
        ],
        badges=[*badges, *([Badge("PARTIAL", "bad")] if result["partial"] else [])],
        made=made(result),
    )
