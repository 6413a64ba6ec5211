"""A metric over all results as a page: a plot for each series, its levels and where they changed."""

from servemark.results.saved import Saved
from servemark.results.schema.history import History, HistoryResult, HistorySeries
from servemark.views.drawing.axis import linear
from servemark.views.drawing.plot import Plot
from servemark.views.page.blocks import Article, Badge, Block, Figure, Lines, Section, Table
from servemark.views.plots.circumstances import environment, made
from servemark.views.terminal.history import HEAD, answer, cells, changes, name
from servemark.views.wording import figure

_TONES = {"worse": "bad", "not worse": "good"}
_METHOD = (
    "Changes: PELT on the logarithms (cost l2, at least 2 results a level). "
    "A permutation test of the whole series at 5 % decides whether there are any."
)


def article(saved: Saved) -> Article:
    """The answer, a row and a plot for each series."""
    found = saved.of(History)
    worse = [number for number, series in enumerate(found["series"]) if series["outcome"] == "worse"]
    table = Table(HEAD, [cells(series) for series in found["series"]], marked=worse)
    unreadable = [Lines([f"not read: {line}" for line in found["unreadable"]])] if found["unreadable"] else []
    return Article(
        about=f"{found['metric']} over the results below {found['folder']}",
        answer=answer(found),
        sections=[
            Section("Series", [table, Lines([_METHOD]), *unreadable] if found["series"] else unreadable),
            *(Section(name(series), _series(series, found)) for series in found["series"]),
            Section("Environment", environment(found)),
        ],
        badges=[Badge(found["outcome"].upper(), _TONES.get(found["outcome"], "open"))],
        made=made(found),
    )


def _series(series: HistorySeries, found: History) -> list[Block]:
    results, unit = series["results"], f"{found['metric']}, {found['unit']}"
    numbered = [(float(number), each) for number, each in enumerate(results, 1)]
    plot = Plot(
        f"{found['metric']} of each result, oldest first",
        linear("result, oldest first", [1.0, float(len(results))], from_zero=False),
        linear(unit, [each["value"] for each in results]),
    )
    plot.line([(number, each["value"]) for number, each in numbered if each["used"]], "", 0)
    for form, words, valid in (("dot", "VALID", True), ("hollow", "INVALID or partial", False)):
        shown = [(number, each["value"], _said(each, unit)) for number, each in numbered if each["valid"] is valid]
        plot.dots(shown, words, 0, form)
    for change in series["changes"]:
        at = next(number for number, each in numbered if each["folder"] == change["after"])
        plot.mark(at - 0.5, f"{change['reading']} {change['ratio']:.2f}")
    rows = [
        [
            f"{number:.0f}",
            each["created"][:16].replace("T", " "),
            _commit(each),
            figure(each["value"]),
            _use(each),
            each["folder"],
        ]
        for number, each in numbered
    ]
    table = Table(["", "created UTC", "commit", unit, "used", "folder"], rows)
    return [Lines([series["reason"], *changes(series)]), Figure.of(plot, unit, table)]


def _said(each: HistoryResult, unit: str) -> str:
    return f"{figure(each['value'])} ({unit}), {each['created'][:16].replace('T', ' ')}, commit {_commit(each)}"


def _commit(each: HistoryResult) -> str:
    return f"{(each['commit'] or 'unknown')[:12]}{' (changed)' if each['dirty'] else ''}"


def _use(each: HistoryResult) -> str:
    return "yes" if each["used"] else "no: INVALID or partial"
