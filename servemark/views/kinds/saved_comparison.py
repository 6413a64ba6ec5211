"""Saved results against each other: the answer, every figure with its interval, what else differs."""

from collections.abc import Iterator
from typing import Any

from servemark.quantities import figure, interval_words
from servemark.results.saved import Saved
from servemark.results.schema.comparison import Difference, SavedComparison, Subject
from servemark.results.schema.header import reason_of
from servemark.views.blocks import Article, Check, Figure, Lines, Section, Table
from servemark.views.drawing.axis import logarithmic
from servemark.views.drawing.plot import Bar, ends
from servemark.views.shape import shaped

SHOWN = 12
"""Maximum number of differing keys of the environments that are listed."""


def article(saved: Saved) -> Article:
    """The judgement of B, the figures in which it is worse, and the circumstances that differ."""
    found = saved.of(SavedComparison)
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
    title, axis = f"Ratio of {found['b']} to {found['a']}", logarithmic("ratio", [*limits, *ends(drawn)])
    return [Figure.of_bars(title, axis, drawn, ["figure", "ratio", "interval"], note=note, points=True)]


def notes(found: SavedComparison) -> list[str]:
    """List the warnings, and the differences of the circumstances."""
    differing = found["differing"]
    lines = [f"differs: {each['key']}: {each['a']} -> {each['b']}" for each in differing[:SHOWN]]
    more = [f"and {len(differing) - SHOWN} more keys (--json)"] if len(differing) > SHOWN else []
    return [*found["warnings"], *lines, *more]


def records(saved: Saved) -> list[dict[str, Any]]:
    """A row for each figure."""
    document = saved.document
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
    """Yield each figure that decides, and the outcome."""
    return judged(saved.of(SavedComparison))


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
