"""A tuning as a page: what was decided, every candidate, and the path of the search."""

from servemark.results.saved import Saved
from servemark.results.schema.tuning import TuningDocument
from servemark.views.drawing.axis import linear
from servemark.views.drawing.plot import Bar, bars
from servemark.views.page.blocks import Article, Badge, Block, Facts, Figure, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.terminal.tuning import cells, head, merit, notes, ratio_words, title, verdict_of
from servemark.views.wording import figure

_TONES = {"better": "good", "same": "good", "missed": "bad"}


def article(saved: Saved) -> Article:
    """The answer, the table of the terminal with all candidates, and how they did."""
    document = saved.of(TuningDocument)
    rows = sorted(document["candidates"], key=merit, reverse=True)
    winner = document["winner"]
    answer = f"{document['outcome']}: {document['reason']}"
    if winner:
        rates = document["rates_requests_per_s"]
        answer = f"{winner['text']}: {figure(rates['before'])} -> {figure(rates['after'])} requests/s"
        answer += f"; {ratio_words(document)}"
    return Article(
        about=title(document),
        answer=answer,
        sections=[
            Section("What was decided", [Lines(notes(document, 0))]),
            Section("Candidates", [Table(head(document), [cells(document, row) for row in rows])]),
            Section("Path of the search", _path(document)),
            Section("Configuration", _configurations(document)),
            Section("Environment", environment(document)),
        ],
        badges=[Badge(document["outcome"].upper(), _TONES.get(document["outcome"], "open"))],
        made=made(document),
    )


def _path(document: TuningDocument) -> list[Block]:
    """Candidates in the order in which they were tried, by screening and by highest rate."""
    parts: list[Block] = []
    screened = [
        (row, sum(row["screens_requests_per_s"]) / len(row["screens_requests_per_s"]))
        for row in document["candidates"]
        if row["screens_requests_per_s"]
    ]
    searched = [
        (row, best["rate"]) for row in document["candidates"] if (best := row["max_rate"]) and best["rate"] is not None
    ]
    winner = document["winner"] and document["winner"]["text"]
    for name, unit, found in (
        ("Screened, in the order of trial", "requests/s under full load", screened),
        ("Highest rate within the objective", "requests/s", searched),
    ):
        if not found:
            continue
        drawn = [
            Bar(
                f"{row['text']}{' (winner)' if row['text'] == winner else ''}",
                figure(rate),
                rate,
                colour=2 if row["text"] == winner else 0,
            )
            for row, rate in found
        ]
        table = Table(
            ["candidate", unit, "came to"],
            [[row["text"], figure(rate), verdict_of(document, row)] for row, rate in found],
        )
        parts.append(Figure(name, bars(name, linear(unit, [rate for _, rate in found]), drawn), table))
    return parts


def _configurations(document: TuningDocument) -> list[Block]:
    found = {"present": document["present"], **({"winner": document["winner"]} if document["winner"] else {})}
    rows = [(f"{name}: {each['text']}", each["config"]) for name, each in found.items()]
    return [Facts(rows, "config.pbtxt", folded=True)]
