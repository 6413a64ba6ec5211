"""Percentiles: the ones a result has, how many samples they need, and their confidence from order statistics.

The requests of one busy moment wait for each other, so that they are slow together: 15,000 requests to an M/M/1 queue
tell as much about its p99 as some hundred independent ones. How much they tell is estimated from windows of the run.
docs/results/coverage.txt shows in how many of 400 simulated runs each interval holds the true percentile.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
RARE = 0.01
CONFIDENCE = 0.95
BOUND_CONFIDENCE = 0.99
MIN_WINDOWS = 6
"""Fewer windows do not tell how much they differ."""
MAX_WINDOWS = 14
"""More are joined: shorter ones follow each other too closely."""
SURE_BEYOND = 500
"""Independent samples beyond a percentile that ten windows cannot show by luck alone. A run that seems to have fewer
may be one whose windows happen to be alike, so n of them count as n * n / 500 (docs/results/coverage.txt)."""
_TAIL = (1 - CONFIDENCE) / 2
_MAX_CORRELATION = 0.8


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


@dataclass(frozen=True)
class Ranks:
    """Ranks (from 1) of the samples between which a percentile lies, and of one that it does not exceed."""

    low: int
    high: int
    bound: int
    """Upper bound with 99 % confidence; never below `high`."""


@dataclass(frozen=True)
class TooLittle:
    """Reason why no interval is given."""

    reason: str
    factor: float = 1.0
    """Number of times as long that the run has to measure, as far as it can tell."""


def independent_ranks(count: int, percentile: float) -> tuple[int, int]:
    """Return the ranks of the 95 % interval of a percentile of independent samples.

    The number of samples below the true percentile is Binomial(n, p), whatever the distribution; its central 95 %
    gives the ranks (Hahn and Meeker, Statistical Intervals, section 5.2).
    """
    from scipy.special import bdtrik

    lower, upper = (float(bdtrik(tail, count, percentile / 100)) for tail in (_TAIL, 1 - _TAIL))
    return math.floor(lower) + 1, min(math.ceil(upper) + 1, count)


def ranks(percentile: float, above: Sequence[int], counts: Sequence[int]) -> Ranks | TooLittle:
    """Return the ranks of a percentile's interval and bound; `above` of the `counts` of each window lie beyond it.

    The variance of the counts beyond the percentile between windows, relative to that of independent samples, is the
    number of samples that tell as much as one independent one: batch means of the indicator of a quantile (Schmeiser,
    Batch Size Effects in the Analysis of Simulation Output, 1982), the larger of that of the windows and of pairs of
    them. Windows that follow each other are alike, which a first-order autoregression corrects for. So few windows
    know their variance badly, hence Student's t with half as many degrees of freedom as windows.

    Runs whose variance looks small by luck are more likely to have an interval. Those near the smallest number would
    therefore miss too often, and their variance is taken to be larger than it looks (see SURE_BEYOND).
    """
    from scipy.special import bdtrik

    sizes = np.array(counts, float)
    found, total = np.array(above, float), int(sizes.sum())
    firsts = np.arange(0, len(sizes), math.ceil(len(sizes) / MAX_WINDOWS))
    found, sizes = np.add.reduceat(found, firsts), np.add.reduceat(sizes, firsts)
    used = sizes > 0
    if used.sum() < MIN_WINDOWS:
        return TooLittle(f"needs {MIN_WINDOWS} windows with requests, has {int(used.sum())}", MIN_WINDOWS)
    spread = max(_dispersion(found[used], sizes[used]), _dispersion(_pairs(found[used]), _pairs(sizes[used])), 1.0)
    share, freedom = percentile / 100, int(used.sum()) // 2
    tail = min(share, 1 - share)
    # With fewer the bound lies beyond the longest request: (1 - tail) ** n would be above 1 %.
    least = math.log(1 - BOUND_CONFIDENCE) / math.log(1 - tail) * tail * _widening(freedom, BOUND_CONFIDENCE)
    beyond, needed = total / spread * tail, math.sqrt(least * SURE_BEYOND)
    if beyond < needed:
        few = f"only about {beyond:.2g} requests lie above it"
        if spread > 1.0:
            few = f"the slowest requests came in bursts, which tell as much as {beyond:.2g} separate ones"
        reason = f"{few}; an interval needs {math.ceil(needed)}"
        return TooLittle(reason, needed / beyond)
    spread *= max(1.0, SURE_BEYOND / beyond)

    def rank(chance: float) -> float:
        """Return the rank below which the percentile lies with a chance."""
        wide = spread * _widening(freedom, max(chance, 1 - chance))
        return float(bdtrik(chance, total / wide, share)) * wide

    low, high = math.floor(rank(_TAIL)) + 1, math.ceil(rank(1 - _TAIL)) + 1
    return Ranks(low, min(high, total), min(max(math.ceil(rank(BOUND_CONFIDENCE)) + 1, high), total))


def _widening(freedom: int, level: float) -> float:
    """Return the factor of the variance by which Student's t is wider than the normal distribution."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(freedom, level) / ndtri(level)) ** 2


def _pairs(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sums of neighbours; an odd one at the beginning is left out."""
    even = values[len(values) % 2 :]
    return even[::2] + even[1::2]


def _dispersion(above: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> float:
    """Return the variance of the counts between windows relative to independent samples, correlation included."""
    share = above.sum() / sizes.sum()
    if not 0 < share < 1:
        return 1.0
    off = above - sizes * share
    ratio = float((off**2 / (sizes * share * (1 - share))).sum()) / (len(sizes) - 1)
    each = above / sizes - (above / sizes).mean()
    squares = float((each**2).sum())
    if not squares:
        return ratio
    # The estimate of so short a series is too low by 1 / n.
    correlation = float((each[1:] * each[:-1]).sum()) / squares + 1 / len(sizes)
    correlation = min(max(correlation, 0.0), _MAX_CORRELATION)
    return ratio * (1 + correlation) / (1 - correlation)
