"""The stages of a tuning: probe, coordinate descent over screens, searches for the highest rate, rounds."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from servemark.campaign import interleaved
from servemark.errors import OptionError, ServerError
from servemark.quantities import figure
from servemark.results.schema.search import Lacked, RateLimit
from servemark.results.schema.search import TuningOutcome as Outcome
from servemark.results.verdict import About, Kind, about
from servemark.search.points import Point, busy
from servemark.search.posterior import START_SHARE, TOLERANCE, Bounds, MaxRate, search
from servemark.search.refinement import MIN_ROUNDS, ROUND_RUNS, rate_ratio, refine_rate
from servemark.search.trial import Bench, Candidate, CandidateScore, Objective, Space, Trial, Tuning
from servemark.stats.percentiles import samples_needed
from servemark.stats.ratios import Ratio

PROBE_CONCURRENCY = 8
MIN_CONCURRENCY, MAX_CONCURRENCY = 2, 64
MAX_PROBES = 3
FULLNESS = 2 / 3
"""Screens keep the number of requests in flight that gives a mean latency of this share of the objective."""
MARGIN = 0.03
"""Screened candidates whose throughputs lie closer together count as equal."""
SCREENING_SHARE, SEARCH_SHARE = 0.3, 0.65
"""Shares of the budget that may be spent when screening ends, and when the searches end."""
PRESENT_SHARE = 0.6
"""Share of the searches' time for the present configuration: finalists start from its rate and need fewer runs. Its
search goes on only if no rate was met by then, because nothing can be decided without one."""
FINALISTS = 2
MAX_ROUNDS = 5
_LACKED: Mapping[RateLimit, Lacked] = {
    "runs": "time",
    "generator": "generator",
    "other work": "machine",
    "unsteady": "server",
    "broken": "server",
}
"""Resource that a search without any met rate lacked, by the search's limit."""

LIGHTER = "free a core for it, or give it fewer and larger requests with --batch-size"


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
        trial = self._bench(stage, standing.candidate, load, number)
        (self._screen_costs_s if stage == "screen" else self._run_costs_s).append(trial.seconds)
        standing.failure = standing.failure or trial.failure
        return trial


def tune(
    bench: Bench,
    space: Space,
    objective: Objective,
    budget_s: float,
    *,
    stop_when_busy: bool = False,
    on_cut: Callable[[Tuning], None] = lambda _: None,
) -> Tuning:
    """Search the space, from its present configuration, for the one with the highest rate within the objective.

    Differences within the noise are resolved in favour of the present configuration, then of the one that changes
    least. `stop_when_busy` ends it where other work disturbs the first runs at a rate. Raises ServerError if the
    present one cannot be used, OptionError if it is too slow for a run to hold enough requests, KeyboardInterrupt after
    `on_cut` has what is known.
    """
    running = _Search(bench, space, objective, budget_s, stop_when_busy=stop_when_busy)
    try:
        return running.run()
    except KeyboardInterrupt:
        on_cut(running.so_far())
        raise


class _OutOfBudgetError(Exception):
    """The time left is too short for another run."""


class _Search:
    """A running tuning."""

    def __init__(
        self, bench: Bench, space: Space, objective: Objective, budget_s: float, *, stop_when_busy: bool
    ) -> None:
        self._stop_when_busy = stop_when_busy
        self._space, self._objective, self._budget_s = space, objective, budget_s
        self._ledger = TrialLedger(bench, objective.duration_s)
        self._present = self._ledger.standing(space.present)
        self._concurrency = PROBE_CONCURRENCY
        self._not_tried: list[str] = []

    def run(self) -> Tuning:
        """Run all stages, one after another."""
        self._probe()
        self._descend()
        if concluded := self._search_present():
            return concluded
        faster = [each for each in self._ledger.standings if each.score > self._present.score]
        finalists = sorted(faster, key=lambda each: each.score, reverse=True)[:FINALISTS]
        lowest = self._present.rate or self._objective.lowest
        left_s = SEARCH_SHARE * self._budget_s - self._ledger.spent_s
        for number, finalist in enumerate(finalists):
            start = max(START_SHARE * finalist.score, lowest)
            finalist.found = self._search(finalist, start, lowest, left_s / (len(finalists) - number))
            left_s = SEARCH_SHARE * self._budget_s - self._ledger.spent_s
        return self._decide([f for f in finalists if not f.failure])

    def so_far(self) -> Tuning:
        """Return what is known where the tuning is cut short."""
        ahead = max(self._ledger.standings, key=lambda s: s.score, default=None)
        first = f"; {ahead.candidate} screened fastest so far" if ahead and ahead.screens else ""
        return self._end("undecided", f"cut short{first}")

    # Screening

    def _probe(self) -> None:
        """Find the number of requests in flight that gives a mean latency well within the objective."""
        present = self._present
        for left in reversed(range(MAX_PROBES)):
            present.screens.clear()
            self._ledger.screen(present, self._concurrency)
            waiting = round(present.score * self._objective.limit_ms / 1e3 * FULLNESS)
            wanted = min(max(waiting, MIN_CONCURRENCY), MAX_CONCURRENCY)
            if present.failure or not left or self._concurrency / 2 <= wanted <= self._concurrency * 2:
                break
            self._concurrency = wanted
        if present.failure:
            reason = f"the present configuration cannot be used: {present.failure}"
            raise ServerError(reason, fix="fix its config.pbtxt, or write it anew with servemark export --force")
        percentile, lowest = self._objective.percentile, self._objective.lowest
        if present.score < lowest:
            longer_s = lowest * self._objective.duration_s / present.score * 2
            raise OptionError(
                f"p{percentile:g} needs {samples_needed(percentile):,} requests in a run, and the server answers about "
                f"{figure(present.score)}/s",
                fix=f"--duration {longer_s:.0f} with a larger --budget, or a lower percentile",
            )

    def _descend(self) -> None:
        """Descend by coordinates: move along each axis to its best value, if that is better in two screens.

        The present position is screened again for each axis, because one lucky screen of it would keep all others out.
        """
        here, moved = self._present, True
        while moved:
            moved = False
            for axis in self._space.axes():
                self._screen(here)
                others = [self._ledger.standing(each) for each in axis(here.candidate) if each != here.candidate]
                for other in others:
                    if not other.screens and not other.failure:
                        self._screen(other)
                best = max(others, key=lambda o: o.score, default=here)
                if _ahead(best, here) and self._screen(here) and self._screen(best) and _ahead(best, here):
                    here, moved = best, True

    def _screen(self, standing: CandidateScore) -> bool:
        """Screen a candidate once more, if there is time for it and it works."""
        left_s = SCREENING_SHARE * self._budget_s - self._ledger.spent_s
        if left_s < self._ledger.screen_cost_s:
            if not standing.screens:
                self._not_tried.append(f"a screening run of {standing.candidate}")
            return False
        self._ledger.screen(standing, self._concurrency)
        return not standing.failure

    # The highest rate

    def _search_present(self) -> Tuning | None:
        """Find the rate that others are compared with; return the end of the tuning if there is no such rate."""
        present, lowest = self._present, self._objective.lowest
        left_s = SEARCH_SHARE * self._budget_s - self._ledger.spent_s
        found = present.found = self._search(present, START_SHARE * present.score, lowest, PRESENT_SHARE * left_s)
        if found and _unmet(found) and found.above:
            start = max(found.above / 2, lowest)
            found = present.found = self._search(present, start, lowest, self._budget_s - self._ledger.spent_s) or found
        if found is None:
            return self._undecided(
                "time", "too little of the budget was left to find the rate of the present configuration"
            )
        stopped = self._stop_when_busy and busy(found.points)
        if stopped or found.bottleneck in {"generator", "broken"} or _unanswered(found):
            lacked = _LACKED[found.bottleneck]
            lighter = f"; {LIGHTER}" if lacked == "generator" else ""
            return self._undecided(lacked, f"the present configuration: {found.reason}{lighter}")
        return None

    def _search(self, standing: CandidateScore, start: float, lowest: float, time_s: float) -> MaxRate | None:
        """Find the candidate's highest rate within `time_s`; None if that is too little time."""
        most_runs = int(time_s / self._ledger.run_cost_s)
        if most_runs < 2:
            self._not_tried.append(f"a search for the rate of {standing.candidate}")
            return None

        bounds = Bounds.around(start, lowest)
        return search(
            lambda rate: self._ledger.run("search", standing, rate),
            bounds,
            most_runs=most_runs,
            stop_when_busy=self._stop_when_busy and standing is self._present,
        )

    # Deciding

    def _decide(self, finalists: list[CandidateScore]) -> Tuning:
        present = self._present
        if present.rate is None:
            return self._decide_without_rate(finalists)
        ahead = [f for f in finalists if (f.rate or 0) > present.rate * (1 + TOLERANCE)]
        if not ahead:
            return self._none_ahead(finalists)
        winner = self._simplest(ahead)
        if trouble := self._rounds(winner):
            lacked, why = trouble
            return self._undecided(lacked, f"{winner.candidate} is faster, but {why}")
        ratio = rate_ratio(winner.rounds, present.rounds)
        if ratio.low is None or ratio.low <= 1:
            return self._end("same", f"{winner.candidate} is not better beyond the noise: ratio {ratio}", ratio=ratio)
        least = " or more: the generator, not the server, limited it" if "round" in winner.limited else ""
        reason = f"{winner.candidate} reaches {ratio.value:.3f} times the present rate{least}"
        return self._end("better", reason, winner=winner.candidate, ratio=ratio)

    def _none_ahead(self, finalists: list[CandidateScore]) -> Tuning:
        if unknown := next((f for f in finalists if f.found is None or _unanswered(f.found)), None):
            return self._without_answer(unknown)
        if not finalists and "screen" in self._present.limited:
            return self._undecided("generator", f"the generator, not the server, limited the screening runs; {LIGHTER}")
        if not finalists:
            return self._end("same", "no candidate screened faster than the present configuration")
        resolution = f"{TOLERANCE:.0%}, the search's resolution"
        return self._end("same", f"no candidate's rate lies more than {resolution}, above the present one's")

    def _without_answer(self, finalist: CandidateScore) -> Tuning:
        """End the tuning, because a finalist's search does not show whether it is better."""
        found = finalist.found
        if found is None or _unmet(found):
            return self._undecided(
                "time", f"too little of the budget was left to find the rate of {finalist.candidate}"
            )
        return self._undecided(_LACKED.get(found.bottleneck, "time"), f"{finalist.candidate}: {found.reason}")

    def _decide_without_rate(self, finalists: list[CandidateScore]) -> Tuning:
        """Decide although the present configuration meets the objective at no rate."""
        sure = [f for f in finalists if f.found and f.found.best and f.found.confirmed]
        if not sure:
            # A finalist that met some rate counts too, if the rate is not known well enough.
            if unknown := next((f for f in finalists if not f.found or f.found.best or _unanswered(f.found)), None):
                return self._without_answer(unknown)
            return self._end("missed", "no configuration met the objective at any rate tried")
        winner = self._simplest(sure)
        reason = f"{winner.candidate} meets the objective; the present configuration meets it at no rate tried"
        return self._end("better", reason, winner=winner.candidate)

    def _simplest(self, ahead: list[CandidateScore]) -> CandidateScore:
        """Choose the candidate that changes least, among those within the search's resolution of the best."""
        best = max(f.rate or 0 for f in ahead)
        alike = [f for f in ahead if (f.rate or 0) * (1 + TOLERANCE) >= best]
        return min(alike, key=lambda f: (f.candidate.changes(self._space.present), f.candidate))

    def _rounds(self, winner: CandidateScore) -> tuple[Lacked, str] | None:
        """Make interleaved rounds, whose number is fixed before the first; return the lacking resource, if any."""
        sides = (self._present, winner)
        cost_s = len(sides) * ROUND_RUNS * self._ledger.run_cost_s
        count = min(max(int((self._budget_s - self._ledger.spent_s) / cost_s), MIN_ROUNDS), MAX_ROUNDS)
        for number in range(count):
            found: dict[Candidate, tuple[float | None, Lacked]] = {}
            try:
                for side in interleaved(sides, number + 1):
                    found[side.candidate] = self._around(side)
            except _OutOfBudgetError:
                self._not_tried.append(f"round {number + 1} of {count}")
                if number >= MIN_ROUNDS:
                    return None
                return "time", f"only {number} of {MIN_ROUNDS} rounds were made before the budget ended"
            for side in sides:
                rate, lacked = found[side.candidate]
                if rate is None:
                    return lacked, f"in round {number + 1} {side.candidate} met no rate near {figure(side.rate)}/s"
                side.rounds.append(rate)
        if "round" in self._present.limited:
            return "generator", f"the generator, not the server, limited the present configuration's rounds; {LIGHTER}"
        return None

    def _around(self, side: CandidateScore) -> tuple[float | None, Lacked]:
        """Find one side's rate in a round; without a rate, name the lacking resource. Raises _OutOfBudgetError."""
        limits: list[RateLimit | None] = []

        def measure(rate: float) -> Point:
            if self._budget_s - self._ledger.spent_s < self._ledger.run_cost_s:
                raise _OutOfBudgetError
            point = self._ledger.run("round", side, rate)
            limits.append(point.limit)
            return point

        start = side.rounds[-1] if side.rounds else side.rate
        assert start is not None
        rate, limited = refine_rate(measure, start)
        side.limited |= {"round"} if limited else set()
        return rate, _LACKED.get(limits[-1], "server") if limits[-1] else "server"

    def _undecided(self, lacked: Lacked, reason: str) -> Tuning:
        disturbed = sum(bool(about(point.failed, About.MACHINE)) for point in self._ledger.points)
        if lacked == "time" and 2 * disturbed > len(self._ledger.points):
            lacked, reason = "machine", f"{reason}; other work disturbed {disturbed} of {len(self._ledger.points)} runs"
        return replace(self._end("undecided", reason), lacked=lacked)

    def _end(
        self, outcome: Outcome, reason: str, *, winner: Candidate | None = None, ratio: Ratio | None = None
    ) -> Tuning:
        standings, not_tried = tuple(self._ledger.standings), tuple(dict.fromkeys(self._not_tried))
        return Tuning(outcome, reason, winner, ratio, standings, not_tried, self._ledger.spent_s)


def _ahead(one: CandidateScore, other: CandidateScore) -> bool:
    return one.score > other.score * (1 + MARGIN)


def _unmet(found: MaxRate) -> bool:
    """Return True if a search was cut short before it met any rate."""
    return found.best is None and found.bottleneck == "runs"


def _unanswered(found: MaxRate) -> bool:
    """Return True if a search met no rate for a reason that is not the server's speed."""
    return found.best is None and found.bottleneck != "server"
