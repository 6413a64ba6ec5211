"""A difference: saved results against each other, or a figure over all results; which of them are worse."""

from collections.abc import Iterator, Sequence
from typing import Any

from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.comparison import (
    Difference,
    History,
    HistoryResult,
    HistorySeries,
    SavedComparison,
    Subject,
    change,
)
from servemark.results.schema.header import reason_of
from servemark.views.blocks import Article, Block, Check, Figure, Lines, Routine, Section, Table
from servemark.views.charts import Bar
from servemark.views.drawing import Axis, Plot, linear
from servemark.views.shape import shaped

NEARLY = 0.1
"""Share of the evidence that shows a change, from which a report warns of it."""
_MOST_TICKS = 6
SHOWN = 12
"""Maximum number of differing keys of the environments that are listed."""


def article(saved: Saved) -> Article:
    """The judgement, the figures or the series that are worse, and the circumstances that differ."""
    return _history(saved.of(History)) if saved.kind == "history" else _saved_comparison(saved.of(SavedComparison))


def _saved_comparison(found: SavedComparison) -> Article:
    first, *others = answer(found)
    return shaped(
        found,
        about=f"{found['b']} against {found['a']}",
        answer=first,
        explained=others,
        sections=[
            *subjects(found),
            Section("What to know", [Lines(notes(found))]),
        ],
        outcome=found["outcome"],
    )


def answer(found: SavedComparison) -> list[str]:
    """Say whether B is worse, not worse, or why that is not known."""
    if found["outcome"] == "worse":
        return [f"{found['b']} is worse: {'; '.join(found['regressions'])}"]
    if found["outcome"] == "undecided":
        first, *others = found["undecided"]
        return [f"undecided: {first}", *others]
    limit = f"{found['threshold'] * 100:.3g} %"
    return [f"{found['b']} is not worse than {found['a']} by {limit} ({', '.join(found['judged'])})"]


def subjects(found: SavedComparison) -> Iterator[Section]:
    """Yield the figures of each subject, and their ratios as a plot."""
    head = ["", found["a"], found["b"], "ratio", f"{found['confidence'] * 100:.3g} % interval", "would see", "reading"]
    for subject in found["subjects"]:
        rows = [_cells(each) for each in subject["differences"]]
        worse = [number for number, each in enumerate(subject["differences"]) if each["reading"] == "worse"]
        yield Section(_title(subject, found), [Table(head, rows, marked=worse)], titled=True)
        yield Section("Ratios", lambda subject=subject: _ratios(subject, found))  # type: ignore[misc]


def _title(subject: Subject, found: SavedComparison) -> str:
    """Name the compared subject and the number of runs that count on each side."""
    names, each, counts = [found["a"], found["b"]], [subject["a"], subject["b"]], subject["runs"]
    what = each[0] if each[0] == each[1] else "; ".join(f"{n}: {s}" for n, s in zip(names, each, strict=True))
    return f"{what}  |  {counts[0]} and {counts[1]} runs"


def _cells(difference: Difference) -> list[str]:
    """A figure's row: name, values, ratio and interval, the smallest loss it would have shown, and the reading."""
    ratio, reading, least = difference["ratio"], difference["reading"], difference["minimum_detectable_change"]
    # What a judged figure lacks is in the answer.
    said = reading == "undecided" or (difference["judged"] and reading == "not known")
    reason = None if said else reason_of(difference, "figure")
    return [
        *(difference["figure"], figure(difference["a"]), figure(difference["b"])),
        f"{ratio['value']:.3f}" if ratio else "-",
        interval_words(ratio and ratio["ci95"], 3),
        "-" if least is None else f"{least:.1%}",
        reading + (f" ({reason})" if reason else ""),
    ]


def _ratios(subject: Subject, found: SavedComparison) -> list[Figure]:
    """Every figure that has a ratio, on an axis of equal ratios; none where none has."""
    drawn = [
        Bar(
            f"{each['figure']}: {each['reading']}",
            ratio["value"],
            ratio["ci95"],
            hollow=not ratio["significant"],
            digits=3,
        )
        for each in subject["differences"]
        if (ratio := each["ratio"])
    ]
    if not drawn:
        return []
    limits = [1 / (1 + found["threshold"]), 1.0, 1 + found["threshold"]]
    note = f"Lines: {found['confidence'] * 100:.3g} % intervals. Hollow: chance may explain the difference."
    title, head = f"Ratio of {found['b']} to {found['a']}", ["figure", "ratio", "interval"]
    return [Figure.of_bars(title, "ratio", drawn, head, note=note, points=True, around=limits)]


def notes(found: SavedComparison) -> list[str]:
    """List the warnings, and the differences of the circumstances."""
    differing = found["differing"]
    lines = [f"differs: {each['key']}: {each['a']} -> {each['b']}" for each in differing[:SHOWN]]
    more = [f"and {len(differing) - SHOWN} more keys (--json)"] if len(differing) > SHOWN else []
    return [*found["warnings"], *lines, *more]


def judged(found: SavedComparison) -> Iterator[Check]:
    """Yield each figure that decides; where it could not be decided, the check fails too."""
    for subject in found["subjects"]:
        for each in (each for each in subject["differences"] if each["judged"]):
            wrong = each["regression"] or each["reading"] in {"undecided", "not known"}
            ratio = figure(each["ratio"] and each["ratio"]["value"])
            value = f"{figure(each['a'])} -> {figure(each['b'])}, ratio {ratio}"
            name = f"{each['figure']} is not worse"
            reason = reason_of(each, "figure")
            note = each["reading"] + (f": {reason}" if wrong and reason else "")
            yield Check(name, not wrong, value=value, note=note, subject=subject["b"])
    reasons = f"{found['outcome']}: {'; '.join([*found['regressions'], *found['undecided']])}"
    subject_of = f"{found['b']} against {found['a']}"
    yield Check("outcome", found["outcome"] == "not worse", note=reasons, subject=subject_of)


def _history(found: History) -> Article:
    series = found["series"]
    worse = [number for number, each in enumerate(series) if each["outcome"] == "worse"]
    head = ["series", "used", "of", "latest", "evidence", "would see", "changes", "outcome"]
    table = Table(head, [_row(each) for each in series], marked=worse)
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
        answer=_of_history(found),
        sections=[
            Section("Series", [table, Lines([*lines, *([Routine(_method(found))] if series else [])])]),
            *(Section(name(each), lambda each=each: _series(each, found)) for each in series),  # type: ignore[misc]
        ],
        outcome=found["outcome"],
    )


def _of_history(found: History) -> str:
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


def _row(series: HistorySeries) -> list[str]:
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
    """A row for each figure, or for each result of each series."""
    document = saved.document
    if saved.kind == "history":
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
    return [
        {
            **{side: subject[side] for side in ("a", "b")},
            **{key: each[key] for key in ("figure", "reading", "judged")},
            "value_a": each["a"],
            "value_b": each["b"],
            "ratio": each["ratio"] and each["ratio"]["value"],
            "outcome": document["outcome"],
        }
        for subject in document["subjects"]
        for each in subject["differences"]
    ]


def checks(saved: Saved) -> Iterator[Check]:
    """Yield each figure that decides, and the outcome; of a history, each series that must not be worse at its end."""
    if saved.kind != "history":
        yield from judged(saved.of(SavedComparison))
        return
    found = saved.of(History)
    for each in found["series"]:
        note, name = f"{each['outcome']}: {each['reason']}", f"{found['metric']} on {each['machine']}"
        yield Check(name, each["outcome"] == "not shown", note=note, subject=each["subject"])
