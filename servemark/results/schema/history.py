"""A figure over all saved results, as `servemark history --json` prints it."""

from typing import Annotated, Literal, TypedDict

from servemark.results.schema.header import KIND, Header


class HistoryResult(TypedDict):
    """One result of a series."""

    folder: Annotated[str, "Its folder, from the one that was searched."]
    created: Annotated[str, "When it was begun (UTC, ISO 8601)."]
    commit: Annotated[str | None, "Commit of the checkout."]
    dirty: Annotated[bool, "Whether tracked files differed from the commit."]
    value: Annotated[float, "The metric."]
    valid: Annotated[bool, "Whether it is VALID and whole."]
    used: Annotated[bool, "Whether changes were sought in it."]


class HistoryChange(TypedDict):
    """A change of the level."""

    before: Annotated[str, "Folder of the last result before it."]
    after: Annotated[str, "Folder of the first result after it."]
    seen: Annotated[str, "Folder of the result with which it was seen."]
    commits: Annotated[list[str | None], "Commits of these two."]
    ratio: Annotated[float, "Geometric mean of the results until the next change, to that since the last one."]
    evidence: Annotated[float, "Largest evidence for it since it was seen; at least `run_length`."]
    reading: Annotated[Literal["worse", "better", "small"], "`small`: less than the threshold."]


Trend = Literal["worse", "not shown", "undecided"]


class HistorySeries(TypedDict):
    """Results that measured the same on the same machine, oldest first."""

    subject: Annotated[str, "What was measured: workload, engine, precision, device, protocol, load, batch."]
    machine: Annotated[str, "Where."]
    results: Annotated[list[HistoryResult], "The results."]
    evidence: Annotated[
        float | None,
        "Evidence of a further change at the last result; at `run_length` it is one. Null: too few results.",
    ]
    detectable_change: Annotated[
        float | None,
        "Smallest change for the worse, as a share, that would have been seen if the latest results since the last "
        "change had it: half of them, 10 at most. Null: they are too few, or too noisy, to show any.",
    ]
    missing_results: Annotated[
        int | None,
        "Number of results that are missing until a change of some size would be seen, if they are like these. "
        "0: none. Null: they are too noisy.",
    ]
    changes: Annotated[list[HistoryChange], "The changes, in order."]
    outcome: Annotated[
        Trend,
        "`worse`: the latest change is for the worse, or the last level is worse than the best before it, beyond "
        "chance among all series. `not shown`: neither is shown, which does not prove that there is none.",
    ]
    reason: Annotated[str, "The same in words."]


class History(Header):
    """A figure over all saved results."""

    kind: Annotated[Literal["history"], KIND]
    folder: Annotated[str, "The folder that was searched."]
    metric: Annotated[str, "The figure."]
    unit: Annotated[str, "Its unit."]
    higher_is_worse: Annotated[bool, "Whether a higher value is worse."]
    threshold: Annotated[float, "Share below which no change counts."]
    run_length: Annotated[int, "Least average number of results of pure noise until a change is seen by mistake."]
    outcome: Annotated[Trend, "Worse where one series is, else undecided where one is."]
    series: Annotated[list[HistorySeries], "The series, those that are worse first."]
    missing: Annotated[list[str], "Reasons why results have no such figure, and how many."]
    unreadable: Annotated[list[str], "Files that could not be read, and why."]


def change(found: HistoryChange) -> str:
    """Return how far a figure's level moved, and between which commits."""
    first, second = (commit[:12] if commit else "an unknown commit" for commit in found["commits"])
    same = found["commits"][0] == found["commits"][1]
    place = f"at {first}: the commit is the same, its surroundings are not" if same else f"between {first} and {second}"
    moved = f"{found['ratio'] - 1:.1%} higher" if found["ratio"] > 1 else f"{1 - found['ratio']:.1%} lower"
    return f"{found['reading']}: {moved} {place}"
