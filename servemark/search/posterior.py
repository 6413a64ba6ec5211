"""The search for the highest rate that meets the objectives: real runs where the posterior asks for them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from servemark.quantities import figure
from servemark.results.objectives import MET
from servemark.results.schema.search import MaxRateSearch, RateLimit
from servemark.search.points import BUSY_RUNS, Point, busy, repeatedly_met, tried
from servemark.stats.percentiles import samples_needed
from servemark.stats.unknown import explained, unknown

SLOPES = np.geomspace(1.5, 96, 7)
"""Growth of the logarithm of the share over the limit, per relative growth of the rate. For M/M/1 it is the rate times
the limit: from 1.5 for a server that is hardly used to 50 at nine tenths of its capacity."""
SHAPES = np.array([0.15, 0.4, 1.0, 2.5, 6.0, 15.0])
"""Shapes of the gamma distribution of mean 1 that multiplies a run's share. Requests of one busy moment are slow
together, so shares vary from run to run far more than those of independent requests."""
FAR = 10.0
"""Beyond this multiple of the allowed share a run only counts as too high: the model holds near the rate sought."""
HICCUP = 0.02
"""Chance that a run's outcome says nothing about its rate, because the machine did something else meanwhile."""
HICCUP_UNKNOWN = 0.05
"""The same chance for a run whose side alone is known, because it was not measured well."""
HICCUP_DISTURBED = 0.3
"""The same chance for a run that other work disturbed and that was not met: the other work may be the reason."""
OCTAVE = math.log(2)
"""Decay of the prior on both sides of a guess, per unit of the rate's logarithm: while one side is open the median
moves on by a factor of 1.6 from run to run, and by bisection once it is closed."""
_STEP = 0.01
_MARGIN = 0.5
_LARGEST = 20.0
Floats = npt.NDArray[np.float64]
START_SHARE = 0.8
"""Start of the search, as a share of a short closed loop's rate: most objectives' rates lie near it."""
TOLERANCE = 0.05
"""A rate counts as known if its 95 % interval reaches at most this far to both sides."""
TIGHT = 0.04
"""Limit that ends the search: tighter, because an interval checked after every run is too narrow at first."""
MAX_RUNS = 24
MIN_RUNS_EACH = 4
"""Minimum number of met runs, and of missed runs, before a search may end: fewer do not show the spread of luck."""
MAX_RATE_RATIO = 100
"""Without bounds no rate lower than the first by this factor is tried."""
STEP = 1.025
"""Ratio between neighbouring rates that are tried, so that a rate has several runs."""
SURE = 0.95
"""The probability with which a rate outside the bounds ends the search."""
_MET_OR_NOT = (0.1, 0.9)
"""Once both sides are known runs are made at these quantiles of the posterior in turn: at its middle alone the slope,
and with it how far a run is off, would stay unknown."""
_INTERVAL = (0.025, 0.975)
_CEILING = 1e9
_CEILING_RATIO = 1e5
"""Without bounds no rate higher than the lowest by this factor is tried."""
_WORDS: dict[RateLimit, str] = {
    "server": "the server missed the objective",
    "generator": "the generator was late",
    "other work": "other work took the machine",
    "unsteady": "the runs were unsteady",
    "broken": "runs broke off",
}


class Threshold:
    """Posterior of the rate, between `lowest` and `highest`, at which the allowed share exceeds the limit.

    A noisy threshold is searched as in psychophysics: each run is made where the posterior says (A. B. Watson, D. G.
    Pelli, QUEST: A Bayesian adaptive psychometric method, Perception & Psychophysics 33, 1983), with the slope unknown
    too (L. L. Kontsevich, C. W. Tyler, Bayesian adaptive estimation of psychometric slope and threshold, Vision
    Research 39, 1999). With signs only it is the probabilistic bisection of Horstein (1963; R. Waeber, P. I. Frazier,
    S. G. Henderson, Bisection search with noisy responses, SIAM J. Control Optim. 51, 2013). How many requests exceeded
    the objective tells more than whether they were too many: of an M/M/1 server it takes half as many runs.

    Around a `guess` the prior decays; without a guess it is uniform over the rate's logarithm. Rates are in requests/s.
    """

    def __init__(self, lowest: float, highest: float, guess: float | None = None) -> None:
        logs = np.arange(math.log(lowest) - _MARGIN, math.log(highest) + _MARGIN + _STEP, _STEP)
        prior = np.zeros_like(logs) if guess is None else -np.abs(logs - math.log(guess)) / OCTAVE
        self._logs = logs
        self._belief = np.broadcast_to(prior[:, None, None], (len(logs), len(SLOPES), len(SHAPES))).copy()
        """Logarithm of the posterior: rates, slopes, shapes."""
        self._below = self._cumulated()

    def observe(self, rate: float, over: int, requests: int, allowed: float) -> None:
        """Learn from a run in which `over` of the requests exceeded a limit that a share of `allowed` may exceed."""
        from scipy.special import gammaln

        if over > FAR * allowed * requests:
            self._learn(self._chance_above(rate, FAR), HICCUP, 1.0)
            return
        mean = requests * np.minimum(allowed * self._times_allowed(rate), 1.0)[:, :, None]
        shape = SHAPES[None, None]
        # A Poisson count of a gamma-distributed mean is negative binomial.
        log_chance = gammaln(over + shape) - gammaln(shape) - gammaln(over + 1)
        log_chance = log_chance + shape * np.log(shape / (shape + mean)) + over * np.log(mean / (shape + mean))
        self._learn(np.exp(log_chance), HICCUP, 1 / (requests + 1))

    def observe_side(self, rate: float, *, above: bool, disturbed: bool = False) -> None:
        """Learn from a run of which only one thing is known: whether too many requests exceeded the limit.

        It tells least where other work disturbed it.
        """
        chance = self._chance_above(rate, 1.0)
        self._learn(chance if above else 1 - chance, HICCUP_DISTURBED if disturbed else HICCUP_UNKNOWN, 1.0)

    def quantile(self, share: float) -> float:
        """Return the rate below which the sought one lies with this probability."""
        return float(math.exp(np.interp(share, self._below, self._logs + _STEP / 2)))

    def chance_below(self, rate: float) -> float:
        """Return the probability that the rate sought is lower."""
        return float(np.interp(math.log(rate), self._logs + _STEP / 2, self._below))

    def _cumulated(self) -> Floats:
        """Return for each rate the probability that the rate sought is not higher."""
        weights = np.exp(self._belief - self._belief.max()).sum(axis=(1, 2))
        below: Floats = np.cumsum(weights / weights.sum())
        return below

    def _times_allowed(self, rate: float) -> Floats:
        """Return the expected share over the limit as a multiple of the allowed one, for each rate sought and slope.

        The tail of a queue is exponential, and its exponent falls nearly in proportion to the rate: exact for M/M/1,
        whose time in system exceeds t with probability exp(-(capacity - rate) t).
        """
        exponent = SLOPES[None, :] * (rate / np.exp(self._logs)[:, None] - 1)
        times: Floats = np.exp(np.minimum(exponent, _LARGEST))
        return times

    def _chance_above(self, rate: float, times: float) -> Floats:
        """Return the chance that a run has more than `times` the allowed share."""
        from scipy.special import gammaincc

        shape = SHAPES[None, None]
        chance: Floats = gammaincc(shape, shape * times / self._times_allowed(rate)[:, :, None])
        return chance

    def _learn(self, chance: Floats, hiccup: float, otherwise: float) -> None:
        """Apply Bayes' rule: the outcome has this chance, or `otherwise` if the run was a hiccup."""
        self._belief += np.log((1 - hiccup) * chance + hiccup * otherwise)
        self._below = self._cumulated()


@dataclass(frozen=True)
class MaxRate:
    """Outcome of a search. `best` is the met run nearest to the rate."""

    best: Point | None
    rate: float | None
    """Rate in requests/s: the posterior's median or, if the server is not the limit, one that two runs met, or more."""
    interval: tuple[float, float | None] | None
    """95 % interval; its end is None if the rate is a lower bound."""
    confirmed: bool
    """True if the server's rate is known to within the tolerance."""
    above: float | None
    """Lowest rate beyond `best` that was not met."""
    bottleneck: RateLimit
    reason: str
    points: tuple[Point, ...]

    @explained
    def to_dict(self) -> MaxRateSearch:
        """Convert to the form of result.json."""
        return {
            "rate": self.rate if self.best else unknown(self.reason),
            "ci95": list(self.interval) if self.interval else None,
            "confirmed": self.confirmed,
            "above": self.above,
            "bottleneck": self.bottleneck,
            "reason": self.reason,
            "rates": tried(self.points),
            "points": [point.to_dict() for point in self.points],
        }


@dataclass(frozen=True)
class Bounds:
    """Bounds of the search in requests/s, and its first rate; without a `start` it begins in their middle."""

    lowest: float
    highest: float | None = None
    start: float | None = None

    @classmethod
    def around(cls, start: float, lowest: float = 0.0) -> "Bounds":
        """Make bounds around a first rate: down to a hundredth of it or to the `lowest`, up without a bound."""
        first = max(start, lowest)
        return cls(max(lowest, first / MAX_RATE_RATIO), None, first)


def rounded(rate: float) -> float:
    """Round to six digits, as in the names of runs, so that a rate that is computed in two ways is the same."""
    return float(f"{rate:.6g}")


def requests_in_run(percentile: float) -> float:
    """Return the mean number of requests with which a Poisson run has enough for the percentile, even by bad luck."""
    needed = samples_needed(percentile)
    return needed + 4 * math.sqrt(needed)


def lowest_rate(percentile: float, duration_s: float) -> float:
    """Return the rate below which a Poisson run of `duration_s` may by chance have too few requests."""
    return requests_in_run(percentile) / duration_s


def interrupted(points: Sequence[Point]) -> MaxRate:
    """Return the outcome of a search that was cut short, by its points."""
    return _lower_bound(points, "interrupted", f"cut short after {len(points)} runs")


def _lower_bound(points: Sequence[Point], limit: RateLimit, reason: str) -> MaxRate:
    """Return the outcome of a search that does not know the server's limit.

    That is at least the rate that two runs met, there or above it. Without one there is no rate to quote.
    """
    best = repeatedly_met(points)
    if best is None:
        above = min((point.rate for point in points if not point.met), default=None)
        reason += "; no rate was met by more than one run"
        return MaxRate(None, None, None, False, above, limit, reason, tuple(points))
    above = min((point.rate for point in points if not point.met and point.rate > best.rate), default=None)
    reason += f"; {_runs_met(points, best.rate)}"
    return MaxRate(best, best.rate, (best.rate, None), False, above, limit, reason, tuple(points))


def _runs_met(points: Sequence[Point], rate: float) -> str:
    """Describe the runs that met a lower bound: those at the rates on both sides, or those that met even more."""
    met = [each for each in tried(points) if each["met"] and each["rate"] >= rate]
    highest = met[-1]
    if highest["rate"] == rate:
        return _around(points, rate)
    in_all = sum(each["met"] for each in met)
    return f"met by {in_all} runs at {figure(rate)}/s or above, by only {highest['met']} at {figure(highest['rate'])}/s"


def _around(points: Sequence[Point], rate: float) -> str:
    """Describe the runs at the rates on both sides: "met in 2 of 3 runs at 2,838/s, in 1 of 3 at 2,964/s"."""
    rates = tried(points)
    below = [each for each in rates if each["rate"] <= rate][-1:]
    above = [each for each in rates if each["rate"] > rate][:1]
    shown = [f"{each['met']} of {each['runs']} {{}}at {figure(each['rate'])}/s" for each in below + above]
    return "met in " + ", in ".join(text.format("" if number else "runs ") for number, text in enumerate(shown))


def search(
    measure: Callable[[float], Point], bounds: Bounds, *, most_runs: int = MAX_RUNS, stop_when_busy: bool = False
) -> MaxRate:
    """Find the highest rate that `measure`, a run of full length, finds met, in at most `most_runs` runs.

    After a run that is not met, whatever limited it, the next ones are slower, down to the lowest rate. So they are
    after a run that breaks off, but two of these in a row end the search. It also ends when the 95 % interval lies
    within `TIGHT`, or when one of the bounds is the answer. `Threshold` has the method and its sources.
    `stop_when_busy` ends it after three first runs that other work disturbed.
    """
    state = _State(bounds)
    for _ in range(most_runs):
        point = measure(state.next_rate())
        if stop_when_busy and len(state.points) == BUSY_RUNS - 1 and busy([*state.points, point]):
            reason = f"other work disturbed each of the first {BUSY_RUNS} runs, so the search would not end VALID"
            return _lower_bound([*state.points, point], "other work", reason)
        if ended := state.learn(point):
            return ended
    return state.end()


class _State:
    """A running search."""

    def __init__(self, bounds: Bounds) -> None:
        # Rounded like the runs' rates, so that a run at a bound is recognised.
        self._bounds = bounds = Bounds(*(each and rounded(each) for each in astuple(bounds)))
        self._highest = bounds.highest or min(bounds.lowest * _CEILING_RATIO, _CEILING)
        self._posterior = Threshold(bounds.lowest, self._highest, bounds.start)
        self._origin = bounds.start or math.sqrt(bounds.lowest * self._highest)
        self.points: list[Point] = []

    def next_rate(self) -> float:
        """Choose the most informative rate: outwards until one rate is met and another is not, then on both sides."""
        met, rates = {point.met for point in self.points}, [point.rate for point in self.points]
        rate = self._posterior.quantile(_MET_OR_NOT[len(self.points) % 2] if len(met) > 1 else 0.5)
        if met == {True}:
            rate = max(rate, max(rates) * STEP)
        elif met == {False}:
            rate = min(rate, min(rates) / STEP)
        step = round(math.log(rate / self._origin) / math.log(STEP))
        return rounded(min(max(self._origin * STEP**step, self._bounds.lowest), self._highest))

    def learn(self, point: Point) -> MaxRate | None:
        """Learn from a run; return the outcome if the search is over."""
        self.points.append(point)
        if point.counts and point.over is not None:
            self._posterior.observe(point.rate, point.over, point.requests, point.allowed)
        else:
            self._posterior.observe_side(point.rate, above=not point.met, disturbed=point.limit == "other work")
        if len(self.points) > 1 and all(each.limit == "broken" for each in self.points[-2:]):
            why = f"{names(point)}; lower rates would not fix this"
            return _lower_bound(self.points, "broken", f"two runs in a row broke off, at {figure(point.rate)}/s: {why}")
        if self._beyond(self._bounds.lowest, 1 - self._posterior.chance_below(self._bounds.lowest), met=False):
            return self.end()
        if self._bounds.highest and self._beyond(
            self._bounds.highest, self._posterior.chance_below(self._bounds.highest), met=True
        ):
            return self.end()
        enough = min(self._count(met=True), self._count(met=False)) >= MIN_RUNS_EACH
        return self.end() if enough and self._width() <= (1 + TIGHT) ** 2 else None

    def _beyond(self, bound: float, chance: float, *, met: bool) -> bool:
        """Return True if the rate lies beyond a bound: two runs there with this outcome may show it, four always do.

        Runs that other work disturbed move the posterior little, and more of them at the bound would not help.
        """
        there = [point.met for point in self.points if point.rate == bound]
        sure = chance <= 1 - SURE or len(there) >= MIN_RUNS_EACH
        return len(there) > 1 and set(there) == {met} and sure

    def _count(self, *, met: bool) -> int:
        return sum(point.met is met for point in self.points)

    def _width(self) -> float:
        low, high = (self._posterior.quantile(share) for share in _INTERVAL)
        return high / low

    def end(self) -> MaxRate:
        """Return the outcome by all runs."""
        met = [point for point in self.points if point.met]
        if not met:
            return self._none()
        median = self._posterior.quantile(0.5)
        best = min(met, key=lambda point: abs(math.log(point.rate / median)))
        beyond = [point for point in self.points if not point.met]
        # The most frequent limit of the runs that lie beyond the rate and nearest to it.
        limit: RateLimit = "range" if self._bounds.highest else "runs"
        if beyond:
            nearest = sorted(beyond, key=lambda point: abs(math.log(point.rate / median)))[:MIN_RUNS_EACH]
            limits = [point.limit for point in nearest if point.limit]
            limit = max(sorted(set(limits)), key=limits.count)
        if limit != "server":
            reason = {
                "range": f"{figure(self._bounds.highest)}/s is the highest that was asked for",
                "runs": f"{len(self.points)} runs were used up, and all were met",
            }.get(limit) or f"at higher rates {_WORDS[limit]}, so the server's own limit is not known"
            return _lower_bound(self.points, limit, reason)
        low, high = (self._posterior.quantile(share) for share in _INTERVAL)
        confirmed = self._width() <= (1 + TOLERANCE) ** 2
        above = min((p.rate for p in beyond if p.rate > best.rate), default=None)
        unsure = "" if confirmed else f"; not known to {TOLERANCE:.0%} after {len(self.points)} runs: {self._longer()}"
        reason = f"{_around(self.points, median)}; beyond it {_WORDS[limit]}{unsure}"
        return MaxRate(best, median, (low, high), confirmed, above, limit, reason, tuple(self.points))

    def _none(self) -> MaxRate:
        slowest = min(self.points, key=lambda point: point.rate)
        limit = slowest.limit or "server"
        lowest = slowest.rate <= self._bounds.lowest
        which = "the lowest rate tried" if lowest else f"the lowest of {len(self.points)} runs, which were used up"
        reason = f"not met at {figure(slowest.rate)}/s, {which}: {_WORDS[limit]} ({names(slowest)})"
        ended: RateLimit = limit if lowest else "runs"
        return MaxRate(None, None, None, False, slowest.rate, ended, reason, tuple(self.points))

    def _longer(self) -> str:
        """Advise a longer duration: the interval narrows with the square root of the measured time."""
        wanted, seen = 2 * math.log(1 + TOLERANCE), math.log(self._width())
        times = math.ceil((seen / wanted) ** 2 * 10) / 10
        return f"a --duration {times:g} times as long would do, and make the search {times:g} times as long"


def names(point: Point) -> str:
    """Name the constraints and the objective that a run does not meet."""
    missed = [] if point.objective == MET else [f"objective {point.objective}"]
    return ", ".join([*sorted(point.failed), *missed])
