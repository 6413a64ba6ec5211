"""The throughput-latency curve of a range of rates, and its knee."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

MIN_COMPLETED_SHARE = 0.99
"""The same share of what was scheduled that the verdict asks to be completed."""
SLOWDOWN = 2.0
DEFINITION = (
    "the highest rate up to which the mean latency stays within twice that of the lowest rate and 99 % of what was "
    "scheduled is completed"
)
_FIGURES = ("mean", "p50", "p90", "p99")


def curve(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The points of a range of rates, ascending, repeats as their median, and the knee among them.

    Twice the latency of an idle server is where M/M/1's power, throughput over mean latency, is greatest (L. Kleinrock,
    Power and deterministic rules of thumb for probabilistic problems in computer communications, ICC 1979): beyond it a
    request costs more in waiting than it brings in throughput. In the table it can be checked by eye.
    """
    rates = sorted({result["scenario"]["requested_rate"] for result in found})
    points = [_point(rate, [r for r in found if r["scenario"]["requested_rate"] == rate]) for rate in rates]
    return {"definition": DEFINITION, "points": points, **_knee(points)}


def _point(rate: float, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One rate."""
    throughput = [run["metrics"]["throughput"] for run in runs]
    latency = {key: [run["metrics"]["latency_ms"][key] for run in runs] for key in _FIGURES}
    return {
        "rate": rate,
        "runs": len(runs),
        "requests_per_s": statistics.median(t["requests_per_s"] for t in throughput),
        # Not of the requested rate: Poisson arrivals of a short run may be fewer by chance.
        "completed_share": statistics.median(
            t["requests_per_s"] / t["scheduled_rate"] if t["scheduled_rate"] else 0.0 for t in throughput
        ),
        **{f"{key}_ms": None if None in values else statistics.median(values) for key, values in latency.items()},
        "valid": all(run["verdict"]["valid"] for run in runs),
    }


def _knee(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last point before the first that is too slow or falls behind."""
    low = points[0]
    previous: Mapping[str, Any] | None = None
    for point in points:
        if point["completed_share"] < MIN_COMPLETED_SHARE:
            why = f"only {point['completed_share']:.1%} of what was scheduled was completed"
        elif point["mean_ms"] is None or low["mean_ms"] is None:
            why = "no request succeeded"
        elif point["mean_ms"] > SLOWDOWN * low["mean_ms"]:
            times = point["mean_ms"] / low["mean_ms"]
            why = f"the mean latency is {times:.3g} times that of {low['rate']:g}/s"
        else:
            previous = point
            continue
        if previous is None:
            return {"knee": None, "knee_reason": f"already at {point['rate']:g}/s, the lowest rate, {why}"}
        return {"knee": previous["rate"], "knee_reason": f"at {point['rate']:g}/s {why}"}
    assert previous is not None
    times = previous["mean_ms"] / low["mean_ms"]
    reason = f"not reached: at {previous['rate']:g}/s the mean latency is {times:.3g} times that of {low['rate']:g}/s"
    return {"knee": None, "knee_reason": reason}
