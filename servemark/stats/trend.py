"""Whether values over time are steady: how far they lie apart, and whether they go one way."""

import math
from collections.abc import Sequence

TREND_LEVEL = 0.05


def max_over_min(values: Sequence[float]) -> float:
    """The ratio of the largest value to the smallest; infinite where the smallest is 0."""
    return max(values) / min(values) if min(values) > 0 else math.inf


def has_trend(values: Sequence[float], level: float = TREND_LEVEL) -> bool:
    """Whether values go one way rather than to and fro: Kendall's rank test, by which 4 values never do."""
    from scipy.stats import kendalltau

    return len(values) > 1 and bool(kendalltau(range(len(values)), values).pvalue <= level)
