"""Throughput-latency curve of a range of rates, and its knee."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

from servemark.documents.saved_load import rate_of
from servemark.figures.registry import value_of
from servemark.results.objectives import MET, MISSED, UNDECIDED
from servemark.results.schema.run import Result
from servemark.results.schema.search import Curve, CurvePoint

MIN_COMPLETED_SHARE = 0.99
"""Share of the scheduled requests that must be completed, the same as in the verdict."""
SLOWDOWN = 2.0
_WORST_FIRST = (MISSED, UNDECIDED, MET)
DEFINITION = (
    "the highest rate before the mean latency exceeds twice that of the lowest rate, or less than 99 % of the schedule "
    "is completed"
)


def curve(found: Sequence[Result]) -> Curve:
    """Return the points of a range of rates, ascending, with the median of repeats, and the knee among them.

    Twice the latency of an idle server is where M/M/1's power, throughput over mean latency, is greatest (L. Kleinrock,
    Power and deterministic rules of thumb for probabilistic problems in computer communications, ICC 1979): beyond it a
    request costs more in waiting than it brings in throughput. In the table it can be checked by eye.
    """
    runs: defaultdict[float, list[Result]] = defaultdict(list)
    for result in found:
        runs[rate_of(result) or 0.0].append(result)
    points = [_point(rate, runs[rate]) for rate in sorted(runs)]
    knee, reason = _knee(points)
    return {"definition": DEFINITION, "points": points, "knee": knee, "knee_reason": reason}


def _point(rate: float, runs: Sequence[Result]) -> CurvePoint:
    """Return the point of one rate."""
    rates = [value_of(run, "throughput.requests") or 0.0 for run in runs]
    scheduled = [value_of(run, "throughput.scheduled") for run in runs]
    statuses = {run["verdict"]["objective"] for run in runs}
    return {
        "rate": rate,
        "runs": len(runs),
        "requests_per_s": statistics.median(rates),
        # Not of the requested rate: Poisson arrivals of a short run may be fewer by chance.
        "completed_share": statistics.median(
            rate / due if due else 0.0 for rate, due in zip(rates, scheduled, strict=True)
        ),
        "mean_ms": _median(runs, "latency.mean"),
        "p50_ms": _median(runs, "latency.p50"),
        "p90_ms": _median(runs, "latency.p90"),
        "p99_ms": _median(runs, "latency.p99"),
        "valid": all(run["verdict"]["valid"] for run in runs),
        "objective": next((status for status in _WORST_FIRST if status in statuses), None),
    }


def _median(runs: Sequence[Result], tag: str) -> float | None:
    """Return the median of a figure, None if one run does not know it."""
    values = [value_of(run, tag) for run in runs]
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(values) else None


def _knee(points: Sequence[CurvePoint]) -> tuple[float | None, str]:
    """Return the last rate before the first that is too slow or falls behind, and the reason."""
    lowest = points[0]
    slowdown = 1.0
    for number, point in enumerate(points):
        if point["completed_share"] < MIN_COMPLETED_SHARE:
            why = f"only {point['completed_share']:.1%} of what was scheduled was completed"
        elif point["mean_ms"] is None or lowest["mean_ms"] is None:
            why = "no request succeeded"
        elif (slowdown := point["mean_ms"] / lowest["mean_ms"]) > SLOWDOWN:
            why = f"the mean latency is {slowdown:.3g} times that of {lowest['rate']:g}/s"
        else:
            continue
        if number == 0:
            return None, f"already at {point['rate']:g}/s, the lowest rate, {why}"
        return points[number - 1]["rate"], f"at {point['rate']:g}/s {why}"
    last = f"at {points[-1]['rate']:g}/s, the highest rate"
    return None, f"{last}, the mean latency is {slowdown:.3g} times that of {lowest['rate']:g}/s"
