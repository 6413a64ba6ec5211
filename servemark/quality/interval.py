"""How well so many examples know a figure: a bootstrap over the examples."""

import math
from collections.abc import Sequence

import numpy as np

from servemark.quality.metric import Metric, Row, Summed
from servemark.stats.ratios import MINIMUM_PAIRS, expanded

RESAMPLES, COSTLY_RESAMPLES = 1_000, 100
"""How often examples are drawn anew: for sums, and where each drawing takes a matching or a sorting of all examples."""
AT_ONCE = 4_000_000
"""Drawn examples that are summed in one step, which bounds the memory."""
Interval = list[float] | None


def intervals(metric: Metric, rows: Sequence[Row], seed: int) -> list[Interval]:
    """95 % interval of each figure, from examples drawn with replacement; None for fewer than 5 examples."""
    count = len(rows)
    if count < MINIMUM_PAIRS:
        return [None] * len(metric.figures)
    rng = np.random.default_rng(seed)
    drawn = _of_sums(metric, rows, rng) if isinstance(metric, Summed) else _of_rows(metric, rows, rng)
    found: list[Interval] = []
    for values in np.array(drawn).T:
        known = values[np.isfinite(values)]
        low, high = np.quantile(known, expanded(count)) if len(known) else (math.nan, math.nan)
        found.append([float(low), float(high)] if len(known) else None)
    return found


def _of_sums(metric: Summed, rows: Sequence[Row], rng: np.random.Generator) -> list[tuple[float, ...]]:
    """How often each example was drawn, times its row, summed."""
    table = np.asarray(rows, np.float64)
    count = len(table)
    step = max(AT_ONCE // count, 1)
    drawn = []
    for start in range(0, RESAMPLES, step):
        times = rng.multinomial(count, np.full(count, 1 / count), min(step, RESAMPLES - start))
        drawn += [metric.combine(sums) for sums in times @ table]
    return drawn


def _of_rows(metric: Metric, rows: Sequence[Row], rng: np.random.Generator) -> list[tuple[float, ...]]:
    return [
        metric.values([rows[index] for index in rng.integers(0, len(rows), len(rows))]) for _ in range(COSTLY_RESAMPLES)
    ]
