"""History of a metric: every series with its changes, and the judgement of the latest."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

from servemark.compare.history.changes import MIN_RESULTS, chance, change_points
from servemark.compare.history.collect import Measured, collect
from servemark.compare.history.metrics import Metric
from servemark.results.labels import change
from servemark.results.schema.header import opening
from servemark.results.schema.history import History, HistoryChange, HistoryResult, HistorySeries, Trend

_ORDER: tuple[Trend, ...] = ("worse", "undecided", "not worse")


def history(root: Path, metric: Metric, *, threshold: float, allow_invalid: bool = False) -> History:
    """Collect the history of a metric below a folder. Raises ResultError."""
    found, unreadable = collect(root, metric)
    groups: dict[tuple[tuple[str, ...], str], list[Measured]] = {}
    for each in found:
        groups.setdefault((each.key, each.machine), []).append(each)
    series = [series_of(group, metric, threshold=threshold, allow_invalid=allow_invalid) for group in groups.values()]
    outcomes = {each["outcome"] for each in series} or {"undecided"}
    return {
        **opening("history"),
        "folder": str(root),
        "metric": metric.name,
        "unit": metric.unit,
        "higher_is_worse": metric.higher_is_worse,
        "threshold": threshold,
        "outcome": next(outcome for outcome in _ORDER if outcome in outcomes),
        "series": sorted(series, key=lambda each: _ORDER.index(each["outcome"])),
        "unreadable": unreadable,
    }


def series_of(
    group: Sequence[Measured], metric: Metric, *, threshold: float, allow_invalid: bool = False
) -> HistorySeries:
    """Find the changes of one series. Values are compared as logarithms, because noise grows with the value."""
    used = [each for each in group if each.valid or allow_invalid]
    logs = [math.log(each.value) for each in used]
    points = change_points(logs)
    ends = [0, *points, len(logs)]
    levels = [math.fsum(logs[a:b]) / (b - a) for a, b in itertools.pairwise(ends) if b > a]
    changes = [
        _change(used[point - 1], used[point], math.exp(levels[number + 1] - levels[number]), metric, threshold)
        for number, point in enumerate(points)
    ]
    outcome, reason = _outcome(len(used), len(group), changes)
    if outcome == "not worse" and changes:
        loss = _loss_to_best(levels, metric)
        if loss > 1 + threshold:
            outcome, reason = "worse", f"the last level is worse than the best before it by the factor {loss:.2f}"
    return {
        "subject": group[0].subject,
        "machine": group[0].machine,
        "results": [_result(each, used=each.valid or allow_invalid) for each in group],
        "chance": chance(logs) if len(logs) >= MIN_RESULTS else None,
        "changes": changes,
        "outcome": outcome,
        "reason": reason,
    }


def _loss_to_best(levels: Sequence[float], metric: Metric) -> float:
    """Return by which factor the last level is worse than the best one before it; levels are logarithms."""
    sign = 1 if metric.higher_is_worse else -1
    return math.exp(sign * levels[-1] - min(sign * level for level in levels[:-1]))


def _change(before: Measured, after: Measured, ratio: float, metric: Metric, threshold: float) -> HistoryChange:
    small = max(ratio, 1 / ratio) <= 1 + threshold
    worse = (ratio > 1) == metric.higher_is_worse
    return {
        "before": before.folder,
        "after": after.folder,
        "commits": [before.commit, after.commit],
        "ratio": ratio,
        "reading": "small" if small else "worse" if worse else "better",
    }


def _outcome(used: int, listed: int, changes: Sequence[HistoryChange]) -> tuple[Trend, str]:
    if used < MIN_RESULTS:
        invalid = f" ({listed - used} more are INVALID or partial)" if listed > used else ""
        return "undecided", f"{used} results{invalid}: at least {MIN_RESULTS} are needed"
    if not changes:
        return "not worse", f"no change beyond chance in {used} results"
    last = changes[-1]
    return ("worse" if last["reading"] == "worse" else "not worse"), f"latest change: {change(last)}"


def _result(each: Measured, *, used: bool) -> HistoryResult:
    return {
        "folder": each.folder,
        "created": each.created,
        "commit": each.commit,
        "dirty": each.dirty,
        "value": each.value,
        "valid": each.valid,
        "used": used,
    }
