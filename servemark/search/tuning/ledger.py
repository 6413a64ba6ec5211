"""Ledger of a search: the candidates, numbers and costs of its trials so far."""

import statistics
from collections import Counter

from servemark.results.constraint_kinds import Kind
from servemark.search.max_rate.point import Point
from servemark.search.tuning.space import Candidate
from servemark.search.tuning.trial import Bench, CandidateScore, Trial


class TrialLedger:
    """Keeps account of a bench's trials; `duration_s` is the measured time of a run at a rate."""

    def __init__(self, bench: Bench, duration_s: float) -> None:
        self._bench, self._duration_s = bench, duration_s
        self.points: list[Point] = []
        """The runs at a rate, of all candidates."""
        self._standings: dict[Candidate, CandidateScore] = {}
        self._made: Counter[tuple[str, Candidate]] = Counter()
        self._screen_costs_s: list[float] = []
        self._run_costs_s: list[float] = []

    @property
    def standings(self) -> list[CandidateScore]:
        """Scores of all candidates that were tried."""
        return [standing for standing in self._standings.values() if standing.screens or standing.failure]

    def standing(self, candidate: Candidate) -> CandidateScore:
        """Return a candidate's score, a new one at the first call."""
        return self._standings.setdefault(candidate, CandidateScore(candidate))

    @property
    def spent_s(self) -> float:
        """Cost of all trials."""
        return sum(self._screen_costs_s) + sum(self._run_costs_s)

    @property
    def screen_cost_s(self) -> float:
        """Expected cost of the next screen: the median of those before, since the first one started the server too."""
        return statistics.median(self._screen_costs_s)

    @property
    def run_cost_s(self) -> float:
        """Expected cost of the next run at a rate, from those before; for the first run, from the screens."""
        if self._run_costs_s:
            return statistics.fmean(self._run_costs_s)
        return min(self._screen_costs_s) + self._duration_s

    def screen(self, standing: CandidateScore, concurrency: int) -> None:
        """Screen a candidate once more."""
        trial = self._trial("screen", standing, concurrency)
        if trial.throughput is not None:
            standing.screens.append(trial.throughput)
            standing.limited |= {"screen"} if trial.generator_limits else set()

    def run(self, stage: str, standing: CandidateScore, rate: float) -> Point:
        """Make one run at a rate; a run without an outcome becomes a point that no other rate would fix."""
        point = self._trial(stage, standing, rate).point or Point(rate, frozenset({Kind.COMPLETED}))
        self.points.append(point)
        return point

    def _trial(self, stage: str, standing: CandidateScore, load: float) -> Trial:
        """Make a candidate's next trial in this stage."""
        number = self._made[stage, standing.candidate]
        self._made[stage, standing.candidate] += 1
        trial = self._bench.trial(stage, standing.candidate, load, number)
        (self._screen_costs_s if stage == "screen" else self._run_costs_s).append(trial.seconds)
        standing.failure = standing.failure or trial.failure
        return trial
