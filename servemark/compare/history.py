"""History of a figure: all results below a folder by subject and machine, and the changes of each series."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from servemark.compare.changes import (
    MAX_AGE,
    MIN_RESULTS,
    RUN_LENGTH,
    Alarm,
    alarms,
    detectable,
    detectable_in,
    results_needed,
    sure,
)
from servemark.compare.interleaved.turn import longer_runs, measured_s
from servemark.documents.load import Distribution
from servemark.documents.saved_load import load_key, load_name
from servemark.errors import ResultError
from servemark.figures.elsewhere import KERNEL_TIME, MAX_RATE
from servemark.figures.figure import Figure
from servemark.figures.registry import count_of, value_of, why_unknown
from servemark.machine.cpu_time import QUIET_SHARE
from servemark.results import directory
from servemark.results.schema.comparison import History, HistoryChange, HistoryResult, HistorySeries, Trend, change
from servemark.results.schema.header import Header, opening
from servemark.results.schema.kernels import KernelsDocument, other_work
from servemark.results.schema.run import Result
from servemark.stats.percentiles import samples_needed

_ORDER: tuple[Trend, ...] = ("worse", "undecided", "not shown")


@dataclass(frozen=True)
class Measured:
    """One result, and the series that it belongs to."""

    subject: str
    machine: str
    result: HistoryResult
    """It is `used` where it is valid."""
    key: tuple[str, ...] = ()
    """Identity of the measured subject: results with equal keys are one series."""


def collect(root: Path, figure: Figure) -> tuple[list[Measured], list[str], list[str]]:
    """Collect the results with the figure, oldest first; why others lack it; the unreadable. Raises ResultError."""
    if not root.is_dir():
        raise ResultError(f"there is no folder {root}", fix="name the folder that holds the results")
    found: list[Measured] = []
    without: list[Result] = []
    unreadable = []
    for file in sorted(root.rglob(directory.RESULT_FILE)):
        # The runs of a search and the parts of a mix belong to the result above them.
        if (file.parent.parent / directory.RESULT_FILE).is_file():
            continue
        try:
            document = directory.read(file)
            had = list(_measured(document, file.parent.relative_to(root), figure))
            found += had
            if not had and document.get("kind") == "load" and document.get("verdict") is not None:
                without.append(directory.typed(document, file.parent, Result))
        except (ResultError, KeyError, TypeError) as error:
            unreadable.append(f"{file.relative_to(root)}: {str(error).splitlines()[0]}")
    return sorted(found, key=lambda each: each.result["created"]), missing(without, figure), unreadable


def missing(without: Sequence[Result], figure: Figure) -> list[str]:
    """Return why results lack a figure: one line for those with too few requests, one for each other reason."""
    needed, few = samples_needed(figure.percentile) if figure.percentile else None, []
    reasons: Counter[str] = Counter()
    for result in without:
        count = count_of(result, "requests.answered") + count_of(result, "errors.count")
        if needed and count < needed:
            few.append((count, longer_runs(needed, count, measured_s(result))))
        else:
            reasons[why_unknown(result, figure.tag)] += 1
    lines = [f"{_results(number)}: {reason}" for reason, number in reasons.items()]
    if few:
        fewest, longer = min(few)
        most = max(few)[0]
        have = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        lines.insert(0, f"{_results(len(few))}: {figure.tag} needs {needed:,} requests, they have {have}: {longer}")
    return lines


def _results(number: int) -> str:
    return f"{number} result{'s' if number > 1 else ''}"


def _measured(document: dict[str, Any], folder: Path, figure: Figure) -> Iterator[Measured]:
    if document.get("kind") == "kernels" and figure is KERNEL_TIME:
        yield from _kernels(directory.typed(document, folder, KernelsDocument), folder)
    if document.get("kind") != "load" or document.get("verdict") is None:
        return
    result = directory.typed(document, folder, Result)
    searched = "max_rate" in result
    value = value_of(result, figure.tag)
    # A search's run is at whatever rate was found: only the rate itself can be compared.
    # Only figures above 0 have ratios.
    if value is None or value <= 0 or searched != (figure is MAX_RATE):
        return
    load_words, load = (load_name(result), load_key(result))
    if searched:
        given = result["request"]["load"]
        load_words = f"highest rate with {result['request']['objectives']['slo'] or None}"
        if given["distribution"] != Distribution.POISSON:
            load_words += f", {given['distribution']} arrivals"
        load = f"{load_words}, {given['gamma_cv']}, {given['duration_s']}"
    # Of a server's own model only the protocol is known.
    place = ", ".join(str(result[key]) for key in ("engine", "precision", "device", "protocol") if result.get(key))
    if value_of(result, "generator.cpu_latency") is not None:
        place += ", cores awake"  # they answer sooner: a series of its own
    subject = f"{result['workload']} on {place}, {load_words}, batch {result['batch_size']}"
    valid, key = result["verdict"]["valid"] and not result["partial"], (result["workload"], place, load)
    yield Measured(subject, *_entry(result, folder, value, valid), (*key, str(result["batch_size"])))


def _kernels(document: KernelsDocument, folder: Path) -> Iterator[Measured]:
    """Each family of a run of kernels, and all of them: the geometric mean of their medians (ms)."""
    measured = [(case["family"], case["ms"]["median"]) for case in document["cases"] if case["ms"]]
    about = f"{document['suite']} on {document['device']}, {' '.join(document['precisions'])}"
    about += f", cache {document['cache']}, {document['threads']} threads"
    quiet = not document["partial"] and other_work(document) <= QUIET_SHARE
    for family in ("all kernels", *document["families"]):
        times = [ms for own, ms in measured if family in {own, "all kernels"}]
        if times:
            # Other cases would be another mean.
            subject = f"{family}: {len(times)} cases of {about}"
            yield Measured(subject, *_entry(document, folder, geometric_mean(times), quiet), (subject,))


def _entry(document: Header, folder: Path, value: float, valid: bool) -> tuple[str, HistoryResult]:
    """The machine, and the document's entry in a series."""
    around = document["environment"]
    place = f"{around.get('cpu') or 'unknown CPU'}, {around.get('cores') or '?'} cores"
    return f"{around.get('hostname') or '?'} ({place})", {
        "folder": str(folder),
        "created": document["created"],
        "commit": around.get("git_commit"),
        "dirty": bool(around.get("git_dirty")),
        "value": value,
        "valid": valid,
        "used": valid,
    }


def history(root: Path, figure: Figure, *, threshold: float, allow_invalid: bool = False) -> History:
    """Collect the history of a figure below a folder. Raises ResultError."""
    found, missing, unreadable = collect(root, figure)
    groups: dict[tuple[tuple[str, ...], str], list[Measured]] = {}
    for each in found:
        groups.setdefault((each.key, each.machine), []).append(each)
    series = together(
        [series_of(group, figure, threshold=threshold, allow_invalid=allow_invalid) for group in groups.values()]
    )
    outcomes = {each["outcome"] for each in series} or {"undecided"}
    return {
        **opening(),
        "kind": "history",
        "folder": str(root),
        "metric": figure.tag,
        "unit": figure.unit.name,
        "higher_is_worse": figure.better == "lower",
        "threshold": threshold,
        "run_length": RUN_LENGTH,
        "outcome": next(outcome for outcome in _ORDER if outcome in outcomes),
        "series": sorted(series, key=lambda each: _ORDER.index(each["outcome"])),
        "missing": missing,
        "unreadable": unreadable,
    }


def series_of(
    group: Sequence[Measured], figure: Figure, *, threshold: float, allow_invalid: bool = False
) -> HistorySeries:
    """Find the changes of one series. Values are compared as logarithms, because noise grows with the value."""
    results: list[HistoryResult] = [{**each.result, "used": each.result["valid"] or allow_invalid} for each in group]
    used = [each for each in results if each["used"]]
    logs = [math.log(each["value"]) for each in used]
    seen, evidence = alarms(logs)
    ends = [0, *(alarm.change for alarm in seen), len(logs)]
    levels = [math.fsum(logs[a:b]) / (b - a) for a, b in itertools.pairwise(ends) if b > a]
    changes = [
        _change(used, alarm, math.exp(levels[number + 1] - levels[number]), figure, threshold)
        for number, alarm in enumerate(seen)
    ]
    since, sign = logs[ends[-2] :], 1 if figure.better == "lower" else -1
    least, needed = detectable(since, sign), results_needed(since, sign)
    missing = None if needed is None else needed - len(since)
    outcome, reason = _outcome(len(used), len(group), changes, missing)
    if outcome == "not shown" and changes:
        # Levels are logarithms.
        loss = math.exp(sign * levels[-1] - min(sign * level for level in levels[:-1]))
        if loss > 1 + threshold:
            outcome, reason = "worse", f"the last level is {loss - 1:.1%} worse than the best before it"
    if outcome == "not shown":
        reason += f"; {_detectable_words(least, len(since), missing)}"
    return {
        "subject": group[0].subject,
        "machine": group[0].machine,
        "results": results,
        "evidence": evidence if len(logs) >= MIN_RESULTS else None,
        "detectable_change": least,
        "missing_results": missing,
        "changes": changes,
        "outcome": outcome,
        "reason": reason,
    }


def together(series: list[HistorySeries]) -> list[HistorySeries]:
    """Judge several series at once: of those that are worse, keep the ones that are so beyond chance among all."""
    judged = [each for each in series if each["outcome"] != "undecided"]
    kept = sure(
        [
            max(change["evidence"] for change in each["changes"] if change["reading"] != "better")
            if each["outcome"] == "worse"
            else None
            for each in judged
        ]
    )
    for each, stays in zip(judged, kept, strict=True):
        if each["outcome"] == "worse" and not stays:
            each["outcome"] = "not shown"
            each["reason"] += f"; one of {len(judged)} series looks so by chance: more results will tell"
    return series


def _change(
    used: Sequence[HistoryResult], alarm: Alarm, ratio: float, figure: Figure, threshold: float
) -> HistoryChange:
    small = max(ratio, 1 / ratio) <= 1 + threshold
    worse = (ratio > 1) == (figure.better == "lower")
    before, after = used[alarm.change - 1], used[alarm.change]
    return {
        "before": before["folder"],
        "after": after["folder"],
        "seen": used[alarm.seen]["folder"],
        "commits": [before["commit"], after["commit"]],
        "ratio": ratio,
        "evidence": alarm.evidence,
        "reading": "small" if small else "worse" if worse else "better",
    }


def _outcome(used: int, listed: int, changes: Sequence[HistoryChange], missing: int | None) -> tuple[Trend, str]:
    if used < MIN_RESULTS:
        invalid = f" ({listed - used} more are INVALID or partial: --allow-invalid takes them)" if listed > used else ""
        return "undecided", f"{used} results{invalid}; {_more(missing)}"
    if not changes:
        return "not shown", f"no change beyond chance in {used} results"
    last = changes[-1]
    return ("worse" if last["reading"] == "worse" else "not shown"), f"latest change: {change(last)}"


def _detectable_words(least: float | None, results: int, missing: int | None) -> str:
    if least is None:
        return f"{results} results of one level cannot show one of any size; {_more(missing)}"
    return f"one of {least:.1%} for the worse in the latest {detectable_in(results)} would have been seen"


def _more(missing: int | None) -> str:
    if missing is None:
        return f"not even {MAX_AGE} as noisy as these would show a change"
    return f"{missing} more like these would show a change of some size"
