"""Changes in a series of values: a permutation test shows whether there is one, PELT finds the places."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MIN_RESULTS = 8
"""Minimum number of values. With 7 no split of the test is rare enough: 2 of 7 are at one end in 1 of 10 orders."""
MIN_SEGMENT = 2
"""A single value is an outlier, not a level."""
LEVEL = 0.05
"""Share of series of pure noise in which a change is seen."""
PERMUTATIONS = 1999
_PENALTY = 4.0
_MIN_SPREAD = 0.001
"""Values closer than 0.1 % are equal: PELT needs a spread above 0."""
_MAD = 1.4826
"""Median absolute deviation of a normal distribution -> its standard deviation."""
Floats = npt.NDArray[np.float64]


def chance(values: Sequence[float]) -> float:
    """Return the p value: the chance that pure noise, in any order, has a split as large as the largest of these.

    A permutation test of the largest CUSUM statistic (E. S. Page, Biometrika 41, 1954; permutations: J. Antoch and M.
    Huskova, Permutation tests in change point analysis, Statistics & Probability Letters 53, 2001). It is exact for
    exchangeable values, whatever their distribution. 1 if there are too few values.
    """
    if len(values) < MIN_RESULTS:
        return 1.0
    found = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(0)
    orders = rng.permuted(np.tile(found, (PERMUTATIONS, 1)), axis=1)
    seen = _largest(found[None, :])[0]
    # Values that differ by rounding only count as equal.
    return (1 + int((_largest(orders) >= seen * (1 - 1e-9) - 1e-12).sum())) / (1 + PERMUTATIONS)


def change_points(values: Sequence[float]) -> list[int]:
    """Return the indices of the values before which the level changed, ascending; none if chance explains the series.

    Values are on a scale of equal noise (logarithms). PELT (R. Killick, P. Fearnhead, I. Eckley, JASA 107, 2012) by
    ruptures: cost l2, at least 2 values a segment, penalty 4 s^2 ln n, s from the differences of neighbours.
    """
    if chance(values) > LEVEL:
        return []
    from ruptures import Pelt

    found = np.asarray(values, dtype=np.float64)
    spread = max(_MAD * float(np.median(np.abs(np.diff(found)))) / math.sqrt(2), _MIN_SPREAD)
    fitted = Pelt(model="l2", min_size=MIN_SEGMENT, jump=1).fit(found.reshape(-1, 1))
    points = _beyond_chance(found, fitted.predict(pen=_PENALTY * spread**2 * math.log(len(found)))[:-1])
    return points or [int(np.argmax(_cusum(found[None, :])[0])) + MIN_SEGMENT]


def _beyond_chance(values: Floats, points: list[int]) -> list[int]:
    """Drop the points whose levels differ by chance, the least certain first.

    Student's t of neighbouring levels with the spread within all levels, at 5 % by Bonferroni over all places. Few
    neighbours show their spread badly, so PELT sometimes splits too often.
    """
    from scipy.special import stdtr

    while points:
        parts = np.split(values, points)
        freedom = len(values) - len(parts)
        within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts) / max(freedom, 1)
        noise = max(within, _MIN_SPREAD**2)
        apart = [
            abs(float(a.mean() - b.mean())) / math.sqrt(noise * (1 / len(a) + 1 / len(b)))
            for a, b in itertools.pairwise(parts)
        ]
        least = int(np.argmin(apart))
        if 2 * float(stdtr(max(freedom, 1), -apart[least])) <= LEVEL / len(values):
            break
        points = [*points[:least], *points[least + 1 :]]
    return points


def _largest(rows: Floats) -> Floats:
    largest: Floats = _cusum(rows).max(axis=1)
    return largest


def _cusum(rows: Floats) -> Floats:
    """Return for each split the distance between both sides' means, relative to the noise of that distance."""
    count = rows.shape[1]
    left = np.arange(MIN_SEGMENT, count - MIN_SEGMENT + 1)
    sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)[:, left - 1]
    apart: Floats = np.abs(sums) * np.sqrt(count / (left * (count - left)))
    return apart
