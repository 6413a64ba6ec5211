"""Where a highest rate lies, by runs whose outcome is partly luck: a posterior over the rate, its slope and the luck.

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
"""By how much the logarithm of the share over the limit grows while the rate grows by as much as it is. M/M/1: the
rate times the limit, from 1.5 of a server that is hardly used to 50 at nine tenths of its capacity."""
SHAPES = np.array([0.15, 0.4, 1.0, 2.5, 6.0, 15.0])
"""Of the gamma distribution of mean 1 that multiplies a run's share: requests of one busy moment are slow together, so
that shares vary from run to run by far more than independent requests' would."""
FAR = 10.0
"""A run with so many times the allowed share tells only that it is too many: the model holds near the rate sought."""
HICCUP = 0.02
"""The chance that a run says nothing of its rate, whatever it found: the machine did something else meanwhile."""
HICCUP_UNKNOWN = 0.05
"""The same of a run of which only the side is known: it was not measured well."""
OCTAVE = math.log(2)
"""Decay of the prior on both sides of a guess, per unit of the rate's logarithm: while one side is open the median
moves on by a factor of 1.6 from run to run, and by bisection once it is closed."""
_STEP = 0.01
_MARGIN = 0.5
_LARGEST = 20.0
Floats = npt.NDArray[np.float64]


class Threshold:
    """What is known of the rate, between `lowest` and `highest`, at which the allowed share lies over the limit.

    Around a `guess` the prior decays; without one all rates are as likely, by their logarithm. Rates in requests/s.
    """

    def __init__(self, lowest: float, highest: float, guess: float | None = None) -> None:
        logs = np.arange(math.log(lowest) - _MARGIN, math.log(highest) + _MARGIN + _STEP, _STEP)
        prior = np.zeros_like(logs) if guess is None else -np.abs(logs - math.log(guess)) / OCTAVE
        self._logs = logs
        self._belief = np.broadcast_to(prior[:, None, None], (len(logs), len(SLOPES), len(SHAPES))).copy()
        """Logarithm of the posterior: rates, slopes, shapes."""
        self._below = self._cumulated()

    def observe(self, rate: float, over: int, requests: int, allowed: float) -> None:
        """A run in which so many of the requests exceeded a limit that a share of `allowed` may exceed."""
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

    def observe_side(self, rate: float, *, above: bool) -> None:
        """A run of which only is known whether too many exceeded the limit."""
        chance = self._chance_above(rate, 1.0)
        self._learn(chance if above else 1 - chance, HICCUP_UNKNOWN, 1.0)

    def quantile(self, share: float) -> float:
        """The rate below which the sought one lies with this probability."""
        return float(math.exp(np.interp(share, self._below, self._logs + _STEP / 2)))

    def chance_below(self, rate: float) -> float:
        """The probability that the rate sought is lower."""
        return float(np.interp(math.log(rate), self._logs + _STEP / 2, self._below))

    def _cumulated(self) -> Floats:
        """The probability that the rate sought is no higher, for each rate."""
        weights = np.exp(self._belief - self._belief.max()).sum(axis=(1, 2))
        below: Floats = np.cumsum(weights / weights.sum())
        return below

    def _times_allowed(self, rate: float) -> Floats:
        """The expected share over the limit in multiples of the allowed one, for each rate sought and slope.

        The tail of a queue is exponential, and its exponent falls nearly in proportion to the rate: exact for M/M/1,
        whose time in system exceeds t with probability exp(-(capacity - rate) t).
        """
        exponent = SLOPES[None, :] * (rate / np.exp(self._logs)[:, None] - 1)
        times: Floats = np.exp(np.minimum(exponent, _LARGEST))
        return times

    def _chance_above(self, rate: float, times: float) -> Floats:
        """The chance that a run has more than so many times the allowed share."""
        from scipy.special import gammaincc

        shape = SHAPES[None, None]
        chance: Floats = gammaincc(shape, shape * times / self._times_allowed(rate)[:, :, None])
        return chance

    def _learn(self, chance: Floats, hiccup: float, otherwise: float) -> None:
        """Bayes' rule: the outcome's chance, or that of a hiccup, under which it would be `otherwise`."""
        self._belief += np.log((1 - hiccup) * chance + hiccup * otherwise)
        self._below = self._cumulated()
