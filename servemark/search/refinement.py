"""Comparison of highest rates: each side's is found again in interleaved rounds, starting from its search's rate."""

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from servemark.errors import ExitCode
from servemark.quantities import figure
from servemark.results.schema.comparison import HighestRateFigures
from servemark.results.verdict import broken
from servemark.search.points import Point
from servemark.search.posterior import TOLERANCE, MaxRate, rounded
from servemark.stats.ratios import Ratio, RatioFigures, ratio_of_repeats
from servemark.stats.unknown import explained, or_unknown, unknown

MIN_ROUNDS = 3
NOT_FOUND = "no round has ended"
ROUND_RUNS = 2.5
"""Typical number of runs for one side of a round."""
MAX_MISSED = 6
"""Maximum runs of one side in one round that miss the objective. Met runs end because each rate is 5 % higher."""


@dataclass
class HighestRate:
    """One engine's highest rate: by its search, then by the rounds, which grow."""

    found: MaxRate | None
    """None: no search could be made; `reason` says why."""
    reason: str | None = None
    """Reason why the engine takes no part in the rounds, or why its ratio is not known."""
    directory: str | None = None
    rounds: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, found: MaxRate, directory: str) -> "HighestRate":
        """Take a search's rate; rounds cannot start from a rate that the server did not limit."""
        sound = found.best is not None and found.bottleneck not in {"generator", "broken"}
        return cls(found, None if sound else found.reason, directory)

    @property
    def rate(self) -> float | None:
        """Rate in requests/s: the rounds' geometric mean or, before any round, the rate that the search met."""
        if self.rounds:
            return statistics.geometric_mean(self.rounds)
        return self.found.rate if self.found else None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of this engine: the objective is missed at every rate, or the rate is not known."""
        if self.reason is None:
            return ExitCode.VALID
        missed = self.found is not None and self.found.best is None and self.found.bottleneck == "server"
        return ExitCode.SLO_MISSED if missed else ExitCode.INVALID

    def repeat(self, measure: Callable[[float], Point], number: int) -> None:
        """Find the rate once more, in round `number`; if no rate near the last one is met, set the reason."""
        start = self.rounds[-1] if self.rounds else self.found and self.found.rate
        assert start
        rate, limited = refine_rate(measure, start)
        if rate is None:
            self.reason = f"in round {number} no rate near {figure(start)}/s was met"
        elif limited:
            self.reason = f"in round {number} the generator, not the server, was the limit, above {figure(rate)}/s"
        else:
            self.rounds.append(rate)

    def against(self, first: "HighestRate") -> RatioFigures | None:
        """Return the ratio of this rate to the first engine's, from whole rounds of both, else an unknown one."""
        count = min(len(self.rounds), len(first.rounds))
        reason = self.reason or (f"of the first engine: {first.reason}" if first.reason else None)
        if reason is None and count < MIN_ROUNDS:
            reason = f"needs {MIN_ROUNDS} rounds, has {count}"
        return unknown(reason) if reason else rate_ratio(self.rounds, first.rounds).to_dict()

    @explained
    def to_dict(self) -> HighestRateFigures:
        """Convert to the form of comparison.json."""
        return {
            "rate": or_unknown(self.rate or None, self.reason or NOT_FOUND),
            "rounds": self.rounds,
            "rounds_reason": self.reason,
            "directory": self.directory,
            "search": self.found.to_dict() if self.found else None,
        }


def refine_rate(measure: Callable[[float], Point], start: float) -> tuple[float | None, bool]:
    """Find the highest rate that is met, by steps of the search's tolerance from the rate found before.

    The rate goes up while it is met, else down until it is met. A doubtful run is made once more. The second value is
    True if the generator, not the server, set the limit; then the rate is a lower bound. None: no rate was met.
    """
    rate, met, missed, limited, left = rounded(start), None, False, False, MAX_MISSED
    while left > 0:
        point = measure(rate)
        if point.doubtful and left > 1:
            left -= 1
            point = measure(rate)
        if point.met:
            met = rate
            if missed:
                break
            rate = rounded(rate * (1 + TOLERANCE))
            continue
        left -= 1
        missed = True
        limited |= point.limit == "generator"
        if met is not None or broken(point.failed):
            break
        rate = rounded(rate / (1 + TOLERANCE))
    return met, limited


def rate_ratio(rates: list[float], others: list[float]) -> Ratio:
    """Return the ratio of two sides' rates with its 95 % interval, from at least two rounds of each.

    A met rate lies up to one step of the search below the server's limit, so the interval is wider by that step.
    """
    with warnings.catch_warnings():
        # SciPy warns if one side found the same rate in each round.
        warnings.simplefilter("ignore", RuntimeWarning)
        return ratio_of_repeats(rates, others, slack=TOLERANCE)
