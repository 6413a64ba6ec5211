"""History of a figure: every series with its changes, and the judgement of the latest."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

from servemark.compare.history.changes import (
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
from servemark.compare.history.collect import Measured, collect
from servemark.figures.figure import Figure
from servemark.results.schema.header import opening
from servemark.results.schema.history import History, HistoryChange, HistoryResult, HistorySeries, Trend, change

_ORDER: tuple[Trend, ...] = ("worse", "undecided", "not shown")


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
        loss = _loss_to_best(levels, figure)
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
    kept = sure([_evidence(each) if each["outcome"] == "worse" else None for each in judged])
    for each, stays in zip(judged, kept, strict=True):
        if each["outcome"] == "worse" and not stays:
            each["outcome"] = "not shown"
            each["reason"] += f"; one of {len(judged)} series looks so by chance: more results will tell"
    return series


def _evidence(series: HistorySeries) -> float:
    """Return the largest evidence of a change for the worse."""
    return max(change["evidence"] for change in series["changes"] if change["reading"] != "better")


def _loss_to_best(levels: Sequence[float], figure: Figure) -> float:
    """Return by which factor the last level is worse than the best one before it; levels are logarithms."""
    sign = 1 if figure.better == "lower" else -1
    return math.exp(sign * levels[-1] - min(sign * level for level in levels[:-1]))


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
