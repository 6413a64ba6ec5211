"""What the search asks for and what it knows: a trial, what stands of a candidate, how it all ended."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from servemark.max_rate.search import MaxRate, Point, lowest_rate
from servemark.results.schema.tuning import CandidateFigures, Lacked, Outcome
from servemark.stats.ratios import Ratio
from servemark.tuning.space import Candidate

Key = tuple[str, Candidate, float, int]


@dataclass(frozen=True)
class Trial:
    """One evaluation; `stage` is "screen" (a closed loop), "search" or "round" (an open loop, which has a point)."""

    stage: str
    candidate: Candidate
    load: float
    """Requests in flight in a screening run, else requests/s."""
    number: int
    """Tells trials of one candidate under one load apart; the seed follows from it."""
    seconds: float
    """What it cost: loading the model, warm-up and measurement."""
    throughput: float | None = None
    """Requests/s answered, of a screen."""
    point: Point | None = None
    failure: str | None = None
    """Why the candidate cannot be used, in the server's words."""
    generator_limits: bool = False
    directory: str | None = None

    @property
    def key(self) -> Key:
        """What was asked for."""
        return self.stage, self.candidate, self.load, self.number

    def to_dict(self) -> dict[str, Any]:
        """As a line of the log holds it."""
        point = self.point and self.point.kept()
        return {**vars(self), "candidate": self.candidate.to_dict(), "point": point}

    @classmethod
    def of_dict(cls, line: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        point = line["point"]
        if point is not None:
            point = Point.of_kept(point)
        return cls(**{**line, "candidate": Candidate.of_dict(line["candidate"]), "point": point})


class Bench(Protocol):
    """What measures. A candidate that cannot be loaded or that fails requests is a trial with a `failure`."""

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Evaluate a candidate."""


@dataclass(frozen=True)
class Objective:
    """What is asked of every run."""

    percentile: float
    limit_ms: float
    duration_s: float

    @property
    def lowest(self) -> float:
        """No rate below is tried: a run would hold too few requests for the percentile."""
        return lowest_rate(self.percentile, self.duration_s)


@dataclass
class CandidateScore:
    """What is known of one candidate."""

    candidate: Candidate
    screens: list[float] = field(default_factory=list)
    """Requests/s of each."""
    failure: str | None = None
    found: MaxRate | None = None
    rounds: list[float] = field(default_factory=list)
    """The highest rate met in each round."""
    limited: set[str] = field(default_factory=set)
    """Stages in which the generator, not the server, set the limit: what the server would do is not known then."""

    @property
    def score(self) -> float:
        """The mean throughput of its screens; 0 where it failed."""
        return statistics.geometric_mean(self.screens) if self.screens and not self.failure else 0.0

    @property
    def rate(self) -> float | None:
        """The highest rate its search found."""
        return self.found.rate if self.found else None

    def to_dict(self) -> CandidateFigures:
        """As tuning.json holds it."""
        return {
            "candidate": self.candidate.to_dict(),
            "text": str(self.candidate),
            "screens_requests_per_s": self.screens,
            "failure": self.failure,
            "max_rate": self.found.to_dict() if self.found else None,
            "latency_ms": self.found.best.latency_ms if self.found and self.found.best else None,
            "rounds_requests_per_s": self.rounds,
            "generator_limited": sorted(self.limited),
        }


@dataclass(frozen=True)
class Tuning:
    """How it ended: "better" (there is a winner), "same", "missed" (none meets the objective) or "undecided"."""

    outcome: Outcome
    reason: str
    winner: Candidate | None
    ratio: Ratio | None
    """The winner's rate to the present one's, None where there were no rounds."""
    standings: tuple[CandidateScore, ...]
    not_tried: tuple[str, ...]
    spent_s: float
    lacked: Lacked | None = None

    def standing(self, candidate: Candidate) -> CandidateScore:
        """What is known of a candidate that was tried."""
        return next(standing for standing in self.standings if standing.candidate == candidate)
