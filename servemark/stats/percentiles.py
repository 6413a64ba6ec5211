"""Percentiles: the ones a result has, how it names them, and how many samples they need."""

import math

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def percentile_key(percentile: float) -> str:
    """The key of a percentile in result.json: 99 -> p99, 99.9 -> p99_9."""
    return f"p{percentile:g}".replace(".", "_")


def samples_needed(percentile: float) -> int:
    """Return the number of samples that a percentile needs: 10 beyond it, 10 / (1 - p)."""
    return math.ceil(round(1000 / (100 - percentile), 6))


def allowed_beyond(percentile: float, count: int) -> int:
    """Return the number of `count` samples that may lie beyond a limit which their percentile keeps (nearest rank)."""
    return math.floor(round(count * (100 - percentile) / 100, 9))
