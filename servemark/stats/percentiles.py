"""Percentiles: the ones a result has, how it names them, and how many samples they need."""

import math

RARE = 0.01
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def percentile_key(percentile: float) -> str:
    """The key of a percentile in a document that names it so: 99 -> p99, 99.9 -> p99_9."""
    return f"p{percentile:g}".replace(".", "_")


def samples_needed(percentile: float) -> int:
    """Return the number of samples that a percentile needs: 10 beyond it, 10 / (1 - p)."""
    return math.ceil(round(1000 / (100 - percentile), 6))


def beyond_chance(over: int, count: int, percentile: float) -> bool:
    """Return True if so many of `count` samples exceed a limit that the percentile's share makes it rarer than 1 %.

    Of 50 samples p99 allows none, yet 40 % of such groups have one over a limit that p99 just keeps.
    """
    from scipy.special import bdtrc

    return bool(over > 0 and bdtrc(over - 1, count, 1 - percentile / 100) < RARE)


def allowed_beyond(percentile: float, count: int) -> int:
    """Return the number of `count` samples that may lie beyond a limit which their percentile keeps (nearest rank)."""
    return math.floor(round(count * (100 - percentile) / 100, 9))
