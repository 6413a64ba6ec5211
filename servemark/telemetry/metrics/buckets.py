"""Prometheus's buckets of an HDR histogram: classic ones, and the exponential ones of a native histogram.

Both are counted from the exact histogram when they are asked for. A percentile that `histogram_quantile` reads from
them lies in the bucket of the true one: within the bucket's width, which is 10 % and 2.2 % of it.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import HIGHEST_S

PER_DECADE = 26
"""Classic bounds grow by 10^(1/26), 9.3 %, rounded to three digits."""
SCHEMA = 5
"""Native bounds grow by 2^(2^-5), 2.2 %; schema 4 would have 4.4 %."""
ZERO_THRESHOLD_S = 5e-7
"""Threshold below which a histogram with 1 µs of resolution counts 0."""


class Native(NamedTuple):
    """A native histogram: spans are (buckets left out, buckets), deltas from bucket to bucket."""

    zero_count: int
    spans: list[tuple[int, int]]
    deltas: list[int]

    def numbered(self) -> dict[int, int]:
        """The count of each bucket that is not empty, by its number."""
        numbers: list[int] = []
        for gap, length in self.spans:
            first = (numbers[-1] + 1 if numbers else 0) + gap
            numbers += range(first, first + length)
        return dict(zip(numbers, itertools.accumulate(self.deltas), strict=True))


@functools.cache
def bounds_s(lowest_s: float, highest_s: float = HIGHEST_S) -> tuple[float, ...]:
    """The upper bounds of the classic buckets but the last, which has none."""
    first, last = math.ceil(math.log10(lowest_s) * PER_DECADE), math.floor(math.log10(highest_s) * PER_DECADE)
    between = [float(f"{10 ** (step / PER_DECADE):.3g}") for step in range(first, last + 1)]
    return tuple(sorted({lowest_s, *between, highest_s}))


def classic(histogram: Histogram, bounds: tuple[float, ...]) -> list[int]:
    """Count the samples up to each bound, and all of them."""
    values_ms, counts = histogram.recorded()
    bucket = np.searchsorted(np.array(bounds), values_ms / 1e3, side="left")
    counted = np.bincount(bucket, counts, minlength=len(bounds) + 1)
    return [int(count) for count in np.cumsum(counted)]


def native(histogram: Histogram) -> Native:
    """The same samples in exponential buckets: number i ends at 2^(i / 2^SCHEMA)."""
    values_ms, counts = histogram.recorded()
    seconds = values_ms / 1e3
    zero = seconds <= ZERO_THRESHOLD_S
    numbers = np.ceil(np.log2(seconds[~zero]) * 2**SCHEMA).astype(np.int64)
    used, place = np.unique(numbers, return_inverse=True)
    held = np.bincount(place, counts[~zero], minlength=len(used)).astype(np.int64)
    spans: list[tuple[int, int]] = []
    after = 0
    for number in used.tolist():
        if spans and number == after:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number - after, 1))
        after = number + 1
    return Native(int(counts[zero].sum()), spans, np.diff(held, prepend=0).tolist())
