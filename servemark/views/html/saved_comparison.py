"""Saved results against each other as a page: the answer, every figure with its interval, what else differs."""

from servemark.results.saved import Saved
from servemark.results.schema.comparison import SavedComparison
from servemark.views.page.blocks import Article, Badge, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.plots.differences import ratios
from servemark.views.terminal.regression import answer, cells, head, notes, title

_TONES = {"worse": "bad", "not worse": "good"}


def article(saved: Saved) -> Article:
    """Compose the page: the judgement of B, and the figures in which it is worse."""
    found = saved.of(SavedComparison)
    first, *others = answer(found)
    return Article(
        about=f"{found['b']} against {found['a']}",
        answer=first,
        sections=[
            Section("What to know", [Lines([*(line.strip() for line in others), *notes(found)])]),
            *(
                Section(
                    title(subject, found),
                    [Table(head(found), [cells(each) for each in subject["differences"]]), *ratios(subject, found)],
                )
                for subject in found["subjects"]
            ),
            Section("Environment", environment(found)),
        ],
        badges=[Badge(found["outcome"].upper(), _TONES.get(found["outcome"], "open"))],
        made=made(found),
    )
