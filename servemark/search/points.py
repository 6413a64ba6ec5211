"""Runs at rates as points: of a search for the highest rate, or of a throughput-latency curve with its knee."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from servemark.documents.saved_load import rate_of
from servemark.figures.registry import value_of
from servemark.results.bottleneck import GENERATOR
from servemark.results.objectives import MET, MISSED, UNDECIDED
from servemark.results.schema.details import JudgedObjective, ObjectiveStatus
from servemark.results.schema.run import Result
from servemark.results.schema.search import Curve, CurvePoint, RateLimit, RatePoint, TriedRate
from servemark.results.verdict import About, about, broken, failed_constraints, overload, verdict_words

BUSY_RUNS = 3
"""A search ends after so many first runs that other work disturbed, all of them: it would not end VALID."""
MIN_COMPLETED_SHARE = 0.99
"""Share of the scheduled requests that must be completed, the same as in the verdict."""
SLOWDOWN = 2.0
_WORST_FIRST = (MISSED, UNDECIDED, MET)
DEFINITION = (
    "the highest rate before the mean latency exceeds twice that of the lowest rate, or less than 99 % of the schedule "
    "is completed"
)


@dataclass(frozen=True)
class Point:
    """One run at one rate in requests/s; `failed` names the constraints of its verdict that do not hold."""

    rate: float
    failed: frozenset[str] = frozenset()
    latency_ms: float | None = None
    """Latency at the objectives' highest percentile."""
    objective: ObjectiveStatus = MET
    conclusive: bool = False
    """True if the generator did not limit this run, however late it was."""
    over: int | None = None
    """Requests over the limit of the latency objective that is nearest to be missed; None: there is none."""
    requests: int = 0
    allowed: float = 0.0
    """Share of the requests that may exceed the limit."""
    directory: str | None = None
    """Of the run's result; None where the run has none."""

    @property
    def met(self) -> bool:
        """True if the objectives were met, by a run that nothing but other work disturbed."""
        disturbed = about(self.failed, About.MACHINE)
        return len(disturbed) == len(self.failed) and self.objective == MET

    @property
    def words(self) -> str:
        """Both answers of the run's verdict."""
        return verdict_words(self.failed, self.objective)

    @property
    def limit(self) -> RateLimit | None:
        """Reason why the rate was not met; None if it was."""
        if self.met:
            return None
        if about(self.failed, About.MACHINE):
            return "other work"
        if about(self.failed, About.GENERATOR) and not self.conclusive:
            return "generator"
        if broken(self.failed):
            return "broken"
        return "server" if self.objective == MISSED or overload(self.failed) else "unsteady"

    @property
    def doubtful(self) -> bool:
        """True if something else than too high a rate may be the reason, which is worth a second run."""
        return self.limit in {"generator", "other work", "unsteady"}

    @property
    def counts(self) -> bool:
        """True if the requests over the limit show the distance from the rate sought, not only the side."""
        if self.over is None or self.failed or not self.requests:
            return False
        return self.met == (self.over <= self.allowed * self.requests)

    def to_dict(self) -> RatePoint:
        """Convert to the form of result.json."""
        return {
            "rate": self.rate,
            "valid": not self.failed,
            "objective": self.objective,
            "met": self.met,
            "bottleneck": self.limit,
            "failed": sorted(self.failed),
            "latency_ms": self.latency_ms,
            "over": self.over,
            "requests": self.requests,
            "directory": self.directory,
        }


def tried(points: Sequence[Point]) -> list[TriedRate]:
    """Return each rate with the number of its runs and of the met ones, ascending."""
    rates = sorted({point.rate for point in points})
    runs = {rate: [point for point in points if point.rate == rate] for rate in rates}
    return [{"rate": rate, "runs": len(made), "met": sum(p.met for p in made)} for rate, made in runs.items()]


def repeatedly_met(points: Sequence[Point]) -> Point | None:
    """Return the met run at the highest rate that most of its runs met, and that two runs met there or above it.

    One lucky run above others that failed is not an answer.
    """
    met = sorted((point for point in points if point.met), key=lambda point: point.rate)
    mostly = {each["rate"] for each in tried(points) if each["met"] * 2 > each["runs"]}
    return next((point for point in reversed(met[:-1]) if point.rate in mostly), None)


def busy(points: Sequence[Point]) -> bool:
    """Return True if other work disturbed each of the first runs of a search."""
    first = points[:BUSY_RUNS]
    return len(first) == BUSY_RUNS and all(about(point.failed, About.MACHINE) for point in first)


def point_of(result: Result, directory: str) -> Point:
    """Read a load result with an objective, at one rate, as a point of the search."""
    rate, verdict = rate_of(result), result["verdict"]
    assert rate is not None
    over, requests, allowed = _over(verdict["objectives"])
    timed = [
        (each["percentile"] or 0.0, each["value"]) for each in verdict["objectives"] if each["figure"] == "latency"
    ]
    return Point(
        rate=rate,
        failed=frozenset(failed_constraints(verdict)),
        latency_ms=max(timed, key=lambda pair: pair[0], default=(0.0, None))[1],
        objective=verdict["objective"] or MET,
        conclusive=result["bottleneck"]["by"] != GENERATOR,
        over=over,
        requests=requests,
        allowed=allowed,
        directory=directory,
    )


def _over(objectives: Sequence[JudgedObjective]) -> tuple[int | None, int, float]:
    """Return the requests over the limit, all requests and the share allowed, for the most critical objective."""
    found = [
        (shown["over"], shown["requests"], round(1 - each["percentile"] / 100, 12))
        for each in objectives
        if (shown := each["shown"]) and each["percentile"] and shown["requests"]
    ]
    return max(found, key=lambda seen: seen[0] / seen[1] / seen[2], default=(None, 0, 0.0))


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
