"""Tests of steadiness for values over time: their spread, and a trend in one direction."""

import itertools
import math
import statistics
from collections.abc import Sequence

TREND_LEVEL = 0.05
DRIFT_LEVEL = 0.005
"""Of 20 rounds of a comparison one would drift by luck in 64 of 100 comparisons at 5 %, in 10 of them at 0.5 %."""
FEWEST = 7
"""Values below which nothing is said to drift: six go one way too often by chance."""
IN_ORDER = 8
"""Of n values that carry over n - 8 pairs may be out of order, none below 8."""
RELEVANT = 1.10
"""A smaller change is not a drift, and a smaller spread not a scatter: perf_analyzer's rule of 10 %."""


def max_over_min(values: Sequence[float]) -> float:
    """The ratio of the largest value to the smallest; infinite where the smallest is 0."""
    return max(values) / min(values) if min(values) > 0 else math.inf


def drift(values: Sequence[float], *, carry_over: bool) -> float | None:
    """Return the ratio of the last third of the values to the first, if they drift; None if they do not.

    They drift if they go one way and the medians of the thirds differ by more than 10 %. Kendall's rank test at 0.5 %
    tells whether independent values go one way. Windows of a queue are not independent, since each begins with what the
    last one left (`carry_over`). Of them nearly every pair must be in order, which is rare even where each value is the
    one before plus chance. docs/explanation/statistics.md has the simulation.
    """
    third = len(values) // 3
    if len(values) < FEWEST or not (_in_order(values) if carry_over else has_trend(values, DRIFT_LEVEL)):
        return None
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    if max_over_min([first, last]) <= RELEVANT:
        return None
    return last / first if first > 0 else math.inf


def _in_order(values: Sequence[float]) -> bool:
    pairs = list(itertools.combinations(values, 2))
    up, down = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    return len(pairs) - max(up, down) <= max(len(values) - IN_ORDER, 0)


def has_trend(values: Sequence[float], level: float = TREND_LEVEL) -> bool:
    """Return True if values go one way rather than to and fro (Kendall's rank test, by which 4 values never do)."""
    from scipy.stats import kendalltau

    return len(values) > 1 and bool(kendalltau(range(len(values)), values).pvalue <= level)
