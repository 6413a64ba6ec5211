"""Steadiness of values over time: the end of their transient, a drift or step, a tail that grows, a queue that grows.

Windows of a queue resemble the window before, so tests for independent values alarm falsely. The limits below were
chosen by simulation: docs/explanation/statistics.md, "Steadiness", has how often each test is wrong, and what it sees.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

METHOD = "MSER"
"""White's rule for the truncation of a simulation's start."""
LAST = 5
"""Minimum number of values kept, because a few that happen to be alike would look like the steadiest end."""
IRRELEVANT = 0.05
"""Values that differ by at most this share of their mean need no cutting: otherwise a series that nears its end value
has no steady part."""
TREND_LEVEL = 0.05
FEWEST = 7
"""Values below which nothing is said to drift: six go one way too often by chance."""
RELEVANT = 1.10
"""A smaller change is not a drift, and a smaller spread not a scatter: perf_analyzer's rule of 10 %."""
TAIL_GROWTH = 2.0
"""A tail that grows by less is not said to grow."""
_DRIFT = 40.0
_DRIFT_OF_QUEUE = 80.0
_TAIL_GROWS = 12.0
_EDGE = 3
"""Values on each side of a step, at least."""

Values = npt.NDArray[np.float64]


def truncation_point(values: npt.NDArray[np.float64]) -> int:
    """Return the number of first values to leave out, of more than LAST.

    The marginal standard error of what is kept, s / sqrt(n - d), is smallest when d values are left out (K. P. White,
    An Effective Truncation Heuristic for Bias Reduction in Simulation Output, Simulation 69, 1997). A d beyond n / 2
    says that the series is too short to tell (K. Hoad, S. Robinson, R. Davies, Automating Warm-Up Length Estimation,
    Journal of the Operational Research Society 61, 2010). Ours: s is not taken below 5 % of the mean.
    """
    kept = np.arange(len(values), LAST - 1, -1)
    # About the mean of all, so that the difference of squares keeps its digits.
    middle = values.mean()
    centred = values[::-1] - middle
    means = np.cumsum(centred)[::-1][: len(kept)] / kept
    variances = np.cumsum(centred**2)[::-1][: len(kept)] / kept - means**2
    return int(np.argmin((variances + (IRRELEVANT * (means + middle)) ** 2) / kept))


def max_over_min(values: Sequence[float]) -> float:
    """Return the ratio of the largest value to the smallest; infinite where the smallest is 0."""
    return max(values) / min(values) if min(values) > 0 else math.inf


def drift(values: Sequence[float], *, carry_over: bool) -> float | None:
    """Return the ratio of the last third of the values to the first, if they drift; None if they do not.

    They drift if the medians of the thirds differ by more than 10 %, and a straight line explains their logarithms or
    ranks, or one step their logarithms, far better than a constant: by an F statistic above 40. Windows of a queue
    begin with what the last one left (`carry_over`), so that they wander by chance: there it has to be above 80.
    """
    third = len(values) // 3
    if len(values) < FEWEST:
        return None
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    if max_over_min([first, last]) <= RELEVANT:
        return None
    least = min((value for value in values if value > 0), default=1.0)
    logs = np.log(np.maximum(values, least / 2))  # a window without any answer
    ordered = np.sort(logs)
    ranks = (np.searchsorted(ordered, logs) + np.searchsorted(ordered, logs, side="right")) / 2  # of ties the mean
    if max(_line(logs), _line(ranks), _step(logs)) <= (_DRIFT_OF_QUEUE if carry_over else _DRIFT):
        return None
    return last / first if first > 0 else math.inf


def tail_growth(slow: Sequence[int]) -> float | None:
    """Return how many times as many requests are slow in the last third of the windows, if their number grows.

    `slow` counts each window's requests beyond the p99 of all windows. They grow if a straight line explains their
    square roots, whose variance is 1/4 for Poisson counts, by an F statistic above 12, and at least twofold.
    """
    third = len(slow) // 3
    if len(slow) < FEWEST:
        return None
    first, last = sum(slow[:third]), sum(slow[-third:])
    if last < TAIL_GROWTH * max(first, 1) or _line(np.sqrt(np.array(slow) + 3 / 8), noise=1 / 4) <= _TAIL_GROWS:
        return None
    return last / max(first, 1)


def is_growing(steps: Sequence[int]) -> bool:
    """Return True if a number that changed by these steps grows, rather than fluctuates (t test of the mean, 5 %)."""
    from scipy.special import stdtrit

    mean, error = statistics.fmean(steps), statistics.stdev(steps) / math.sqrt(len(steps))
    return mean > float(stdtrit(len(steps) - 1, 0.95)) * error


def _line(values: Values, noise: float = 0.0) -> float:
    """Return the F statistic of a straight line against a constant; `noise` is the least variance around it."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    slope = places @ values / (places @ places)
    return _gain(values, values - values.mean() - slope * places, noise)


def _step(values: Values) -> float:
    """Return the largest F statistic of a step against a constant (Pettitt 1979 has the same question for ranks)."""
    return max(
        _gain(values, np.concatenate([values[:at] - values[:at].mean(), values[at:] - values[at:].mean()]), 0.0)
        for at in range(_EDGE, len(values) - _EDGE + 1)
    )


def _gain(values: Values, rest: Values, noise: float) -> float:
    whole, left = float(((values - values.mean()) ** 2).sum()), float((rest**2).sum())
    error = max(left / (len(values) - 2), noise)
    return (whole - left) / error if error > 0 else math.inf


def has_trend(values: Sequence[float]) -> bool:
    """Return True if values go one way rather than to and fro (Kendall's rank test, by which 4 values never do)."""
    from scipy.stats import kendalltau

    return len(values) > 1 and bool(kendalltau(range(len(values)), values).pvalue <= TREND_LEVEL)
