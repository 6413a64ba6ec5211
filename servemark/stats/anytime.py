"""A ratio that may be looked at after every round: its test and its interval hold however often one looks, and stops.

The test is a Bayes factor for the mean of normal values of unknown variance, with a normal prior for the mean in
standard deviations (M. Gönen et al., The Bayesian Two-Sample t Test, The American Statistician 59, 2005). It is a
function of Student's t alone, and an e-process: between equal sides the chance that it ever exceeds 1 / alpha is at
most alpha (M. Pérez-Ortiz et al., E-statistics, Group Invariance and Anytime-Valid Testing, Annals of Statistics 52,
2024). The interval has all ratios that the test does not reject.
"""

import math
import statistics
from collections.abc import Sequence

from servemark.stats.order_statistics import CONFIDENCE
from servemark.stats.ratios import Ratio

PRIOR_VARIANCE = 10.0
"""Of the mean, in variances of a round. Engines differ by some standard deviations of a round; the interval of 5 to 10
rounds is nearly the shortest of all priors."""
MINIMUM_LOOK = 3
"""Rounds before the first look: of two rounds no test can be significant."""


def anytime_ratio(pairs: Sequence[tuple[float, float]], *, slack: float = 0.0) -> Ratio:
    """The geometric mean of first / second over interleaved pairs; no interval below three.

    `slack` is by which share a ratio may be off besides, because the values are rounded: it widens the interval.
    """
    logs = [math.log(first / second) for first, second in pairs]
    mean, margin = statistics.fmean(logs), math.log1p(slack)
    if len(logs) < MINIMUM_LOOK:
        return Ratio(math.exp(mean), None, None)
    half = _half_width(logs) + margin
    strongest = max(_log_e_value(logs[:count], margin) for count in range(MINIMUM_LOOK, len(logs) + 1))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), min(math.exp(-strongest), 1.0))


def _log_e_value(logs: Sequence[float], margin: float) -> float:
    """Logarithm of the evidence against a mean of 0, or within the margin around it."""
    count, beyond = len(logs), max(abs(statistics.fmean(logs)) - margin, 0.0)
    variance, spread = _variance(logs), 1 + PRIOR_VARIANCE * count
    if not beyond:
        return -0.5 * math.log(spread)
    if not variance:
        return 0.5 * (count - 1) * math.log(spread)
    squared = count * beyond**2 / (variance * (count - 1))  # t squared / its degrees of freedom
    return 0.5 * (count * (math.log1p(squared) - math.log1p(squared / spread)) - math.log(spread))


def _variance(values: Sequence[float]) -> float:
    """Return the sample variance; that of `statistics` computes with fractions, which takes many times as long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _half_width(logs: Sequence[float]) -> float:
    """Half of the interval of the means that the test does not reject; infinite where so few values reject none."""
    count, spread = len(logs), 1 + PRIOR_VARIANCE * len(logs)
    growth = (math.sqrt(spread) / (1 - CONFIDENCE)) ** (2 / count)
    if growth >= spread:
        return math.inf
    squared = (growth - 1) / (1 - growth / spread)
    return math.sqrt(_variance(logs) * squared * (count - 1) / count)
