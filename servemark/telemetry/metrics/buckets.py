"""Prometheus's buckets of an HDR histogram.

They are counted from the exact histogram when they are asked for. A percentile that `histogram_quantile` reads from
them lies in the bucket of the true one: within the bucket's width, which is 10 % of it.
"""

import functools
import math

import numpy as np

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import HIGHEST_S

PER_DECADE = 26
"""Bounds grow by 10^(1/26), 9.3 %, rounded to three digits."""


@functools.cache
def bounds_s(lowest_s: float, highest_s: float = HIGHEST_S) -> tuple[float, ...]:
    """The upper bounds of the buckets but the last, which has none."""
    first, last = math.ceil(math.log10(lowest_s) * PER_DECADE), math.floor(math.log10(highest_s) * PER_DECADE)
    between = [float(f"{10 ** (step / PER_DECADE):.3g}") for step in range(first, last + 1)]
    return tuple(sorted({lowest_s, *between, highest_s}))


def cumulative(histogram: Histogram, bounds: tuple[float, ...]) -> list[int]:
    """Count the samples up to each bound, and all of them."""
    values_ms, counts = histogram.recorded()
    bucket = np.searchsorted(np.array(bounds), values_ms / 1e3, side="left")
    counted = np.bincount(bucket, counts, minlength=len(bounds) + 1)
    return [int(count) for count in np.cumsum(counted)]
