"""Estimate of a highest rate from runs whose outcome is partly luck: a posterior over rate, slope and luck.

A noisy threshold is searched as in psychophysics: each run is made where the posterior says (A. B. Watson, D. G. Pelli,
QUEST: A Bayesian adaptive psychometric method, Perception & Psychophysics 33, 1983), with the slope unknown too
(L. L. Kontsevich, C. W. Tyler, Bayesian adaptive estimation of psychometric slope and threshold, Vision Research 39,
1999). With signs only it is the probabilistic bisection of Horstein (1963; R. Waeber, P. I. Frazier, S. G. Henderson,
Bisection search with noisy responses, SIAM J. Control Optim. 51, 2013). How many requests exceeded the objective tells
more than whether they were too many: of an M/M/1 server it takes half as many runs.
"""

import math

import numpy as np
import numpy.typing as npt

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


class Threshold:
    """Posterior of the rate, between `lowest` and `highest`, at which the allowed share exceeds the limit.

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
