"""Confidence interval of a figure of quality: Wilson's for a share, else a bootstrap over the examples."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from servemark.quality.metric import Floats, Means, Metric, Row, Summed
from servemark.stats.ratios import MINIMUM_PAIRS, expanded, share_interval

RESAMPLES, COSTLY_RESAMPLES = 1_000, 100
"""Number of bootstrap samples: for sums, and for figures that match or sort all examples of each sample."""
AT_ONCE = 4_000_000
"""Maximum number of examples that are summed in one step, which bounds the memory."""
Method = Literal["wilson", "bootstrap"]


class Interval(NamedTuple):
    """Bounds of a 95 % interval and the method that found them; both None if there is no interval."""

    bounds: list[float] | None = None
    method: Method | None = None


def intervals(metric: Metric, rows: Sequence[Row], seed: int) -> list[Interval]:
    """Return each figure's interval; none for fewer than 5 examples or a bootstrap whose samples are all alike.

    A figure that is the share of examples with score 1, while all others have 0, gets Wilson's interval.
    """
    if len(rows) < MINIMUM_PAIRS:
        return [Interval()] * len(metric.figures)
    shares = _shares(metric, rows)
    if all(shares):  # so that nothing is drawn
        return [_wilson(share, len(rows)) for share in shares if share]
    rng = np.random.default_rng(seed)
    drawn = np.array(_of_sums(metric, rows, rng) if isinstance(metric, Summed) else _of_rows(metric, rows, rng)).T
    return [
        _wilson(share, len(rows)) if share else _quantiles(values, len(rows))
        for share, values in zip(shares, drawn, strict=True)
    ]


def _shares(metric: Metric, rows: Sequence[Row]) -> list[list[float] | None]:
    """Return the scores of each figure that is a share, None for the others."""
    if not isinstance(metric, Means) or not metric.shares:
        return [None] * len(metric.figures)
    columns = np.asarray(rows, np.float64)[:, :-1].T.tolist()
    return [column if {0.0, 1.0} >= set(column) else None for column in columns]


def _wilson(scores: Sequence[float], count: int) -> Interval:
    return Interval(list(share_interval(round(sum(scores)), count)), "wilson")


def _quantiles(drawn: Floats, count: int) -> Interval:
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return Interval()
    low, high = (float(bound) for bound in np.quantile(known, expanded(count)))
    return Interval([low, high], "bootstrap") if low < high else Interval()


def _of_sums(metric: Summed, rows: Sequence[Row], rng: np.random.Generator) -> list[tuple[float, ...]]:
    """Draw the bootstrap samples and sum each sample's rows."""
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
