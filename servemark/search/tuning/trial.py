"""Data of the search: a trial, a candidate's score, the objective and the outcome."""

import statistics
from dataclasses import dataclass, field
from typing import Protocol

from servemark.results.schema.tuning import CandidateFigures, Lacked, Outcome, TuningDocument
from servemark.search.max_rate.point import Point
from servemark.search.max_rate.search import MaxRate, lowest_rate
from servemark.search.tuning.space import Candidate
from servemark.stats.ratios import Ratio


@dataclass(frozen=True)
class Trial:
    """One evaluation; `stage` is "screen" (a closed loop), "search" or "round" (an open loop, which has a point)."""

    stage: str
    candidate: Candidate
    load: float
    """Requests in flight in a screening run, else requests/s."""
    number: int
    """Number among the trials of one candidate under one load; the seed follows from it."""
    seconds: float
    """Cost of the trial: loading the model, warm-up and measurement."""
    throughput: float | None = None
    """Answered requests/s of a screen."""
    point: Point | None = None
    failure: str | None = None
    """Reason why the candidate cannot be used, in the server's words."""
    generator_limits: bool = False
    directory: str | None = None


class Bench(Protocol):
    """Makes trials. A candidate that cannot be loaded or that fails requests gives a trial with a `failure`."""

    def trial(self, stage: str, candidate: Candidate, load: float, number: int) -> Trial:
        """Evaluate a candidate."""


@dataclass(frozen=True)
class Objective:
    """Objective and length of every run."""

    percentile: float
    limit_ms: float
    duration_s: float

    @property
    def lowest(self) -> float:
        """Lowest rate that is tried: below it a run would hold too few requests for the percentile."""
        return lowest_rate(self.percentile, self.duration_s)


@dataclass
class CandidateScore:
    """Figures of one candidate, as far as they are known."""

    candidate: Candidate
    screens: list[float] = field(default_factory=list)
    """Requests/s of each screen."""
    failure: str | None = None
    found: MaxRate | None = None
    rounds: list[float] = field(default_factory=list)
    """The highest rate met in each round."""
    limited: set[str] = field(default_factory=set)
    """Stages in which the generator, not the server, set the limit, so that the server's speed is not known."""

    @property
    def score(self) -> float:
        """Mean throughput of the screens; 0 if the candidate failed."""
        return statistics.geometric_mean(self.screens) if self.screens and not self.failure else 0.0

    @property
    def rate(self) -> float | None:
        """Highest rate that the search found."""
        return self.found.rate if self.found else None

    def to_dict(self) -> CandidateFigures:
        """Convert to the form of tuning.json."""
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
    """Outcome of a tuning: "better" (with a winner), "same", "missed" (none meets the objective) or "undecided"."""

    outcome: Outcome
    reason: str
    winner: Candidate | None
    ratio: Ratio | None
    """Ratio of the winner's rate to the present one's, None if there were no rounds."""
    standings: tuple[CandidateScore, ...]
    not_tried: tuple[str, ...]
    spent_s: float
    lacked: Lacked | None = None

    def standing(self, candidate: Candidate) -> CandidateScore:
        """Return the score of a candidate that was tried."""
        return next(standing for standing in self.standings if standing.candidate == candidate)


class InterruptedTuning(KeyboardInterrupt):
    """A tuning that was cut short, with what it knows, and its document where there is one."""

    document: TuningDocument | None = None

    def __init__(self, tuning: Tuning) -> None:
        super().__init__()
        self.tuning = tuning
