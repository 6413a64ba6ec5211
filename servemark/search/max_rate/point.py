"""One run of a search: a rate, and what the run says of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from servemark.documents.saved_load import rate_of
from servemark.results.bottleneck import GENERATOR
from servemark.results.constraint_kinds import About, about, broken, overload
from servemark.results.objectives import MET, MISSED
from servemark.results.schema.run import Result
from servemark.results.schema.search import RateLimit, RatePoint, TriedRate
from servemark.results.schema.verdict import JudgedObjective, ObjectiveStatus
from servemark.results.verdict import failed_constraints, verdict_words

BUSY_RUNS = 3
"""A search ends after so many first runs that other work disturbed, all of them: it would not end VALID."""


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
    def valid(self) -> bool:
        """True if the run was measured well, whatever it found."""
        return not self.failed

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
    def generator_limits(self) -> bool:
        """True if this rate is too high for the generator, not for the server."""
        return self.limit == "generator"

    @property
    def doubtful(self) -> bool:
        """True if something else than too high a rate may be the reason, which is worth a second run."""
        return self.limit in {"generator", "other work", "unsteady"}

    @property
    def counts(self) -> bool:
        """True if the requests over the limit show the distance from the rate sought, not only the side."""
        if self.over is None or not self.valid or not self.requests:
            return False
        return self.met == (self.over <= self.allowed * self.requests)

    def to_dict(self) -> RatePoint:
        """Convert to the form of result.json."""
        return {
            "rate": self.rate,
            "valid": self.valid,
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
