"""Saved results against each other: whether B is worse than A, as far as so many runs can say."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from servemark.comparison.document import throughput
from servemark.errors import ResultError
from servemark.regression.saved_runs import Run, differing, subjects
from servemark.results.schema.comparison import Difference, SavedComparison, Subject
from servemark.results.schema.header import opening
from servemark.results.verdict import failed_constraints
from servemark.stats.percentiles import percentile_key, samples_needed
from servemark.stats.ratios import (
    MINIMUM_PAIRS,
    Ratio,
    merge,
    ratio_of_merged,
    ratio_of_percentiles,
    ratio_of_repeats,
    ratio_of_windows,
    share_difference,
)

PERCENTILES = (50.0, 99.0)


def compare_sides(
    first: Sequence[Run], second: Sequence[Run], threshold: float, named: tuple[str, str] = ("A", "B")
) -> SavedComparison:
    """B against A, subject by subject; `threshold` is the share below which no difference counts. Raises ResultError.

    Where both sides hold one subject each these are compared even if they differ, say in the engine.
    """
    sides = [subjects(runs) for runs in (first, second)]
    names = [(name, name) for name in sides[0] if name in sides[1]]
    if len(sides[0]) == len(sides[1]) == 1:
        names = [(next(iter(sides[0])), next(iter(sides[1])))]
    workloads = [{run.result["workload"] for run in runs} for runs in (first, second)]
    if not names or not workloads[0] & workloads[1]:
        raise ResultError(
            f"A holds {'; '.join(sides[0])}, B holds {'; '.join(sides[1])}: nothing to compare",
            fix="name results of one workload under one load",
        )
    found = [_subject(a, b, sides[0][a], sides[1][b], threshold) for a, b in names]
    alone = [
        f"only in {side}: {name}"
        for side, pair in (("A", 0), ("B", 1))
        for name in sides[pair]
        if name not in {n[pair] for n in names}
    ]
    return {
        **opening("saved_comparison"),
        "a": named[0],
        "b": named[1],
        "threshold": threshold,
        "subjects": found,
        "warnings": [*_warnings(first, second), *alone],
        "differing": differing(first[0].result, second[0].result),
        "regressions": [f"{s['b']}: {d['figure']}" for s in found for d in s["differences"] if d["regression"]],
    }


def _subject(name_a: str, name_b: str, first: Sequence[Run], second: Sequence[Run], threshold: float) -> Subject:
    differences = [_latency(first, second, percentile, threshold) for percentile in PERCENTILES]
    differences += [_throughput(first, second, threshold), _errors(first, second), _outputs(first, second)]
    return {
        "a": name_a,
        "b": name_b,
        "runs": [len(first), len(second)],
        "differences": differences,
    }


def _difference(
    figure: str,
    a: float | None,
    b: float | None,
    ratio: Ratio | None,
    reading: str,
    regression: bool,
    reason: str | None = None,
) -> Difference:
    """One figure of A and B, and what it says of B."""
    found = {"figure": figure, "a": a, "b": b, "ratio": ratio and ratio.to_dict(), "reading": reading}
    return cast(Difference, {**found, "regression": regression, "reason": reason})


def _latency(first: Sequence[Run], second: Sequence[Run], percentile: float, threshold: float) -> Difference:
    figure = f"{percentile_key(percentile).replace('_', '.')} ms"
    sides = [[run.latency for run in runs] for runs in (first, second)]
    merged = [merge(side) for side in sides]
    short = next((m.count for m in merged if m.count < samples_needed(percentile)), None)
    if short is not None:
        reason = f"needs {samples_needed(percentile)} samples, has {short}"
        return _difference(figure, None, None, None, "not known", False, reason)
    a, b = (m.percentile(percentile) for m in merged)
    ratio: Ratio | None
    if min(len(first), len(second)) < 2:
        ratio = ratio_of_percentiles(merged[1], merged[0], percentile)
    else:
        each = [[m.percentile(percentile) for m in side] for side in sides]
        whole = all(m.count >= samples_needed(percentile) for side in sides for m in side)
        ratio = ratio_of_repeats(each[1], each[0]) if whole else ratio_of_merged(sides[1], sides[0], percentile)
    if ratio is None:
        reason = "the runs are too short for a figure each, and there are fewer than 5"
        return _difference(figure, a, b, None, "not known", False, reason)
    return _judged(figure, a, b, ratio, threshold, worse_above=True)


def _throughput(first: Sequence[Run], second: Sequence[Run], threshold: float) -> Difference:
    figure = "inferences/s"
    rates = [[throughput(run.result) for run in runs] for runs in (first, second)]
    a, b = (float(np.mean(side)) for side in rates)
    if not all(rate for side in rates for rate in side):
        regression = bool(a) and not b
        reading = "worse" if regression else "not known"
        return _difference(figure, a, b, None, reading, regression, "a run answered nothing")
    if min(len(first), len(second)) >= 2:
        ratio = ratio_of_repeats(rates[1], rates[0])
    else:
        windows = [
            [w["requests_per_s"] * run.result["batch_size"] for run in runs for w in run.result["windows"]]
            for runs in (first, second)
        ]
        few = min(len(side) for side in windows) < MINIMUM_PAIRS and all(rate for side in windows for rate in side)
        ratio = ratio_of_repeats(windows[1], windows[0]) if few else ratio_of_windows(windows[1], windows[0])
    return _judged(figure, a, b, ratio, threshold, worse_above=False)


def _judged(figure: str, a: float, b: float, ratio: Ratio, threshold: float, *, worse_above: bool) -> Difference:
    """Compare a ratio with chance and the threshold."""
    if ratio.significant is None:
        return _difference(figure, a, b, ratio, "not known", False, "fewer than 5 windows: raise --duration")
    if not ratio.significant:
        return _difference(figure, a, b, ratio, "not significant", False)
    worse = (ratio.value > 1) == worse_above
    # As a factor, so that 5 % more and its inverse weigh the same.
    beyond = max(ratio.value, 1 / ratio.value) > 1 + threshold
    reading = ("worse" if worse else "better") if beyond else f"within {threshold:.0%}"
    return _difference(figure, a, b, ratio, reading, worse and beyond)


def _errors(first: Sequence[Run], second: Sequence[Run]) -> Difference:
    """The share of failed requests of all runs; any rise beyond chance is worse."""
    counts = []
    for runs in (first, second):
        errors = sum(run.result["metrics"]["errors"]["count"] for run in runs)
        counts.append((errors, errors + sum(run.result["metrics"]["latency_ms"]["count"] for run in runs)))
    figure = "error share"
    if not all(total for _, total in counts):
        return _difference(figure, None, None, None, "not known", False, "no request was sent in the measured interval")
    a, b = (count / total for count, total in counts)
    return _shares(figure, a, b, share_difference(counts[1], counts[0]), worse_above=True)


def _outputs(first: Sequence[Run], second: Sequence[Run]) -> Difference:
    """Outputs that agree with the golden ones: outside the tolerance where A was inside, or fewer equal top answers."""
    figure = "top-1 agreement"
    shares = []
    for runs in (first, second):
        found = [run.result["metrics"]["accuracy"]["output_agreement"] for run in runs]
        checked = [
            (f["checked"], f["top1_agreement"]) for f in found if f["checked"] and f["top1_agreement"] is not None
        ]
        total = sum(count for count, _ in checked)
        shares.append((round(sum(count * share for count, share in checked)), total))
    broken = ["output_agreement" in _failed(runs) for runs in (first, second)]
    if not all(total for _, total in shares):
        regression = broken[1] and not broken[0]
        return _difference(figure, None, None, None, "worse" if regression else "not known", regression, "not checked")
    a, b = (count / total for count, total in shares)
    if broken[1] and not broken[0]:
        return _difference(figure, a, b, None, "worse", True, "outputs of B lie outside the workload's tolerance")
    return _shares(figure, a, b, share_difference(shares[1], shares[0]), worse_above=False)


def _failed(runs: Sequence[Run]) -> set[str]:
    return {name for run in runs for name in failed_constraints(run.result["verdict"])}


def _shares(figure: str, a: float, b: float, interval: tuple[float, float], *, worse_above: bool) -> Difference:
    low, high = interval
    if low <= 0 <= high:
        return _difference(figure, a, b, None, "not significant", False)
    worse = (b > a) == worse_above
    return _difference(figure, a, b, None, "worse" if worse else "better", worse)


def _warnings(first: Sequence[Run], second: Sequence[Run]) -> list[str]:
    lines = []
    if min(len(repeats) for runs in (first, second) for repeats in subjects(runs).values()) < 2:
        lines.append(
            "a side has one run, so the intervals leave out what varies from run to run: measure with --repeat 5, "
            "or side by side with `servemark compare WORKLOAD --engines`"
        )
    for side, runs in (("A", first), ("B", second)):
        invalid = [run for run in runs if not run.result["verdict"]["valid"]]
        names = sorted(_failed(invalid))
        if invalid:
            lines.append(f"{side}: {len(invalid)} of {len(runs)} runs are INVALID ({', '.join(names)})")
    return lines
