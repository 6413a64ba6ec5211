"""A figure over all results: a row and a plot for each series, its levels and where they changed."""

from collections.abc import Sequence
from typing import Any

from servemark.quantities import figure
from servemark.results.saved import Saved
from servemark.results.schema.history import History, HistoryResult, HistorySeries, change
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Routine, Section, Table
from servemark.views.drawing.axis import Axis, linear
from servemark.views.drawing.plot import Plot
from servemark.views.shape import shaped

NEARLY = 0.1
"""Share of the evidence that shows a change, from which a report warns of it."""
HEAD = ("series", "used", "of", "latest", "evidence", "would see", "changes", "outcome")
_MOST_TICKS = 6


def article(saved: Saved) -> Article:
    """The answer, a row for each series, its changes, and its plot."""
    found = saved.of(History)
    series = found["series"]
    worse = [number for number, each in enumerate(series) if each["outcome"] == "worse"]
    table = Table(HEAD, [_cells(each) for each in series], marked=worse)
    lines = [
        f"{name(each)}: {change(found_change)} ({found_change['before']} -> {found_change['after']})"
        for each in series
        for found_change in each["changes"]
    ]
    lines += [f"without {found['metric']}: {line}" for line in found["missing"]]
    lines += [f"not read: {line}" for line in found["unreadable"]]
    return shaped(
        found,
        about=f"{found['metric']} of the results below {found['folder']}",
        answer=answer(found),
        sections=[
            Section("Series", [table, Lines([*lines, *([Routine(_method(found))] if series else [])])]),
            *(Section(name(each), lambda each=each: _series(each, found)) for each in series),  # type: ignore[misc]
        ],
        outcome=found["outcome"],
    )


def answer(found: History) -> str:
    """Say whether the metric is worse at the end of any series."""
    series = found["series"]
    if not series:
        others = "; ".join(found["missing"]) or "kernels have kernel_time, searches max_rate"
        return f"undecided: no result below {found['folder']} has {found['metric']}: {others}"
    counted = f"{found['metric']} in {len(series)} series"
    said = [each for each in series if each["outcome"] == found["outcome"]]
    if found["outcome"] == "not shown":
        beyond = f"by more than {100 * found['threshold']:g} %"
        none = f"not shown: {counted}, none shows a change for the worse {beyond} at its end"
        return f"{none}; {_detectable(series)}{_nearly(found)}"
    return f"{found['outcome']}: {counted}; {len(said)} {found['outcome']}, first {name(said[0])}: {said[0]['reason']}"


def _detectable(series: Sequence[HistorySeries]) -> str:
    """Say which changes would have been seen, because what is not shown may still be there."""
    known = [each["detectable_change"] for each in series if each["detectable_change"] is not None]
    blind = [each["missing_results"] for each in series if each["detectable_change"] is None]
    few = f"{len(blind)} of {len(series)} cannot show one of any size yet{_missing(blind)}" if blind else ""
    if not known:
        return few
    least, most = (f"{100 * share:.2g} %" for share in (min(known), max(known)))
    which = f"a lasting one of {most}" if least == most else f"lasting ones of {least} to {most}, by series,"
    return f"{which} would have been seen" + (f"; {few}" if few else "")


def _nearly(found: History) -> str:
    """Warn where a change is almost seen: a large one is not told from noise before several results have it."""
    most = max((each["evidence"] or 0.0 for each in found["series"]), default=0.0)
    if most < found["run_length"] * NEARLY:
        return ""
    return f"; but the evidence of one is {figure(most)} of {found['run_length']} that show it: more results will tell"


def _missing(blind: Sequence[int | None]) -> str:
    """Say how many results those series lack, as far as it is known."""
    known = sorted({missing for missing in blind if missing is not None})
    if not known:
        return ", because they are too noisy"
    return f" (results missing: {known[0]}{f' to {known[-1]}, by series' if len(known) > 1 else ''})"


def _method(found: History) -> str:
    return (
        "Evidence: how much likelier the order of the results is after a change than in noise. At "
        f"{found['run_length']} a change is seen. Noise alone shows one in at most 1 of {found['run_length']} results, "
        "however often one looks."
    )


def name(series: HistorySeries) -> str:
    """Name the subject and the machine of a series."""
    return f"{series['subject']} on {series['machine']}"


def _cells(series: HistorySeries) -> list[str]:
    """A series' row."""
    used = [each for each in series["results"] if each["used"]]
    return [
        *(name(series), str(len(used)), str(len(series["results"])), figure(used[-1]["value"] if used else None)),
        figure(series["changes"][-1]["evidence"] if series["changes"] else series["evidence"]),
        "-" if (least := series["detectable_change"]) is None else f"{100 * least:.2g} %",
        *(str(len(series["changes"])), series["outcome"]),
    ]


def _series(series: HistorySeries, found: History) -> list[Block]:
    results, unit = series["results"], f"{found['metric']}, {found['unit']}"
    numbered = [(float(number), each) for number, each in enumerate(results, 1)]
    plot = Plot(
        f"{found['metric']} of each result, oldest first",
        _commits(results),
        linear(unit, [each["value"] for each in results]),
    )
    plot.line([(number, each["value"]) for number, each in numbered if each["used"]], "", 0)
    for form, words, valid in (("dot", "VALID", True), ("hollow", "INVALID or partial", False)):
        shown = [
            (number, each["value"], f"{figure(each['value'])} ({unit}), {_when(each)}, commit {_commit(each)}")
            for number, each in numbered
            if each["valid"] is valid
        ]
        plot.dots(shown, words, 0, form)
    for each in series["changes"]:
        at = next(number for number, result in numbered if result["folder"] == each["after"])
        plot.mark(at - 0.5, f"{each['reading']} {each['ratio'] - 1:+.0%}")
    rows = [
        [
            *(f"{number:.0f}", _when(each), _commit(each), figure(each["value"])),
            *("yes" if each["used"] else "no: INVALID or partial", each["folder"]),
        ]
        for number, each in numbered
    ]
    table = Table(["", "created UTC", "commit", unit, "used", "folder"], rows)
    return [Lines([series["reason"]]), Figure.of(plot, unit, table)]


def _commits(results: Sequence[HistoryResult]) -> Axis:
    """Return an axis of results, oldest first, on which the first one of a commit has its name; else its day."""
    names = [each["commit"][:7] if each["commit"] else each["created"][:10] for each in results]
    first = [number for number, each in enumerate(names) if number == 0 or names[number - 1] != each]
    named = first[:: -(-len(first) // _MOST_TICKS)]
    ticks = tuple((number + 1.0, names[number]) for number in named)
    return Axis("commit, oldest first", 0.5, len(results) + 0.5, ticks)


def _when(each: HistoryResult) -> str:
    return each["created"][:16].replace("T", " ")


def _commit(each: HistoryResult) -> str:
    return f"{(each['commit'] or 'unknown')[:12]}{' (changed)' if each['dirty'] else ''}"


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each result of each series."""
    document = saved.document
    return [
        {
            **{key: series[key] for key in ("subject", "machine", "outcome")},
            **{key: document[key] for key in ("metric", "unit")},
            **{key: each[key] for key in ("folder", "value", "valid", "used")},
            "git_commit": each["commit"],
            "git_dirty": each["dirty"],
        }
        for series in document["series"]
        for each in series["results"]
    ]


def checks(saved: Saved) -> list[Check]:
    """No series is shown to be worse at its end."""
    found = saved.of(History)
    return [
        Check(
            f"{found['metric']} on {each['machine']}",
            each["outcome"] == "not shown",
            note=f"{each['outcome']}: {each['reason']}",
            subject=each["subject"],
        )
        for each in found["series"]
    ]
