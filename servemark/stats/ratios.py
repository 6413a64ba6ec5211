"""Ratios of two measurements with their 95 % interval: in pairs, at every look, and over repeats.

Ratios are averaged as their logarithms (the geometric mean), so that A to B is the inverse of B to A.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import numpy.typing as npt

from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import CONFIDENCE, independent_ranks

MINIMUM_PAIRS = 5
"""With fewer, no bootstrap over pairs has an interval worth the name: 4 pairs have only 35 different resamples."""
MINIMUM_FOR_MEDIAN = 6
"""Of 5 values all lie on one side of the true median in 6 of 100 cases."""
MINIMUM_REPEATS = 4
"""AIBench reports run-to-run variation over at least this many repeats (section 5.3.1)."""
MINIMUM_LOOK = 3
"""Rounds before the first look of `anytime_ratio`: of two rounds no test can be significant."""
PRIOR_VARIANCE = 10.0
"""Of the mean, in variances of a round. Engines differ by some standard deviations of a round; the interval of 5 to 10
rounds is nearly the shortest of all priors."""
RESAMPLES = 10_000
Floats = npt.NDArray[np.float64]


class RatioFigures(TypedDict):
    """A ratio."""

    value: Annotated[float, "The ratio."]
    ci95: Annotated[list[float] | None, "95 % interval. Null: too little was measured for one."]
    p_value: Annotated[
        float | None, "Chance of a ratio this far from 1 between equal sides (Student's t). Null: no such test."
    ]
    significant: Annotated[
        bool | None,
        "Whether it differs from 1 at 5 %. A comparison tests all of its ratios together (Holm 1979). "
        "Null: no interval.",
    ]


@dataclass(frozen=True)
class Ratio:
    """A ratio and its 95 % interval; `low` and `high` are None where too little was measured for one."""

    value: float
    low: float | None
    high: float | None
    p_value: float | None = None
    """Chance of a ratio this far from 1 between equal sides; None where no test of Student's t was made."""

    @property
    def significant(self) -> bool | None:
        """Return True if the interval leaves out 1; None if there is no interval."""
        return None if self.low is None or self.high is None else self.low > 1 or self.high < 1

    @property
    def inverse(self) -> "Ratio":
        """The second to the first."""
        low, high = (1 / bound if bound else None for bound in (self.high, self.low))
        return Ratio(1 / self.value, low, high, self.p_value)

    @property
    def half_width(self) -> float | None:
        """Half the interval's width in logarithms; None where there is no interval."""
        return None if not self.low or not self.high else math.log(self.high / self.low) / 2

    def to_dict(self) -> RatioFigures:
        """Return it as comparison.json holds it."""
        interval = None if self.low is None or self.high is None else [self.low, self.high]
        return {"value": self.value, "ci95": interval, "p_value": self.p_value, "significant": self.significant}

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.value:.3f} (no interval)"
        note = "" if self.significant else ", not significant"
        return f"{self.value:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}{note})"


def ratio_of_pairs(pairs: Sequence[tuple[float, float]], *, slack: float = 0.0) -> Ratio:
    """The geometric mean of first / second over interleaved pairs, by Student's t; no interval below 5 pairs."""
    first, second = zip(*pairs, strict=True)
    if len(pairs) < MINIMUM_PAIRS:
        return Ratio(math.exp(statistics.fmean(np.log(first) - np.log(second))), None, None)
    return ratio_of_repeats(first, second, paired=True, slack=slack)


def anytime_ratio(pairs: Sequence[tuple[float, float]], *, slack: float = 0.0) -> Ratio:
    """The geometric mean of first / second over interleaved pairs, looked at after each round; no interval below 3.

    Its test and its interval hold however often one looks, and stops. The test is a Bayes factor for the mean of normal
    values of unknown variance, with a normal prior for the mean in standard deviations (M. Gönen et al., The Bayesian
    Two-Sample t Test, The American Statistician 59, 2005). It is a function of Student's t alone, and an e-process:
    between equal sides the chance that it ever exceeds 1 / alpha is at most alpha (M. Pérez-Ortiz et al., E-statistics,
    Group Invariance and Anytime-Valid Testing, Annals of Statistics 52, 2024). The interval has all ratios that the
    test does not reject. `slack` as in `ratio_of_repeats`.
    """
    logs = [math.log(first / second) for first, second in pairs]
    mean, margin = statistics.fmean(logs), math.log1p(slack)
    if len(logs) < MINIMUM_LOOK:
        return Ratio(math.exp(mean), None, None)
    half = _anytime_half_width(logs) + margin
    strongest = max(_log_e_value(logs[:count], margin) for count in range(MINIMUM_LOOK, len(logs) + 1))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), min(math.exp(-strongest), 1.0))


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The median of first / second over pairs of many things, with the interval that order statistics give.

    For things of unequal size, such as kernels: one that is far off does not move it.
    """
    ratios = sorted(first / second for first, second in pairs)
    value = statistics.median(ratios)
    if len(ratios) < MINIMUM_FOR_MEDIAN:
        return Ratio(value, None, None)
    low, high = independent_ranks(len(ratios), 50)
    return Ratio(value, ratios[low - 1], ratios[high - 1])


def ratio_of_repeats(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float = CONFIDENCE,
    *,
    paired: bool = False,
    slack: float = 0.0,
) -> Ratio:
    """The ratio of the geometric means of repeats, at least 2 of each, by Student's t on their logarithms.

    Independent repeats: Welch's test. `paired`: the n-th of both are of one round, whose ratio is one value. `slack` is
    by which share a ratio may be off besides, because the values are rounded: it widens the interval on both sides.
    """
    logs = [np.log(values) for values in (first, second)]
    varying = [logs[0] - logs[1]] if paired else logs
    estimates = [(float(log.var(ddof=1)) / len(log), len(log)) for log in varying]
    return _ratio(float(logs[0].mean() - logs[1].mean()), estimates, confidence, slack)


def ratio_of_merged(
    first: Sequence[Histogram],
    second: Sequence[Histogram],
    percentile: float,
    confidence: float = CONFIDENCE,
    *,
    paired: bool = False,
    slack: float = 0.0,
) -> Ratio | None:
    """Return the ratio of a percentile of two sides' merged runs, in an interval over the runs of each.

    None below 5 runs, or where it lies among failed requests.

    `paired`: the n-th of both are of one round. The interval is Student's t with the bootstrap's standard error
    (T. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69, 2015, section 4.1). The
    bootstrap's own percentiles cannot be had here: of five equal pairs one side is the slower in all five 6 times in
    100, and then every resample says so.
    """
    if min(len(first), len(second)) < MINIMUM_PAIRS:
        return None
    # One seed draws the same rounds of both.
    seeds = (0, 0) if paired else (0, 1)
    sides = zip(seeds, (first, second), strict=True)
    logs = [np.log(_merged(runs, percentile, np.random.default_rng(seed))) for seed, runs in sides]
    if not all(np.isfinite(drawn).all() for drawn in logs):
        return None
    varying = [(logs[0] - logs[1], len(first))] if paired else [(logs[0], len(first)), (logs[1], len(second))]
    value = merge(first).percentile(percentile) / merge(second).percentile(percentile)
    return _ratio(math.log(value), [(_variance(drawn, count), count) for drawn, count in varying], confidence, slack)


def holm(p_values: Sequence[float]) -> list[bool]:
    """Return which of several tests are significant, with a chance of at most 5 % that any is so by luck.

    S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979.
    """
    found, left = [False] * len(p_values), len(p_values)
    for place in sorted(range(len(p_values)), key=p_values.__getitem__):
        if p_values[place] > (1 - CONFIDENCE) / left:
            break
        found[place], left = True, left - 1
    return found


def merged_interval(rounds: Sequence[Histogram], percentile: float) -> list[float] | None:
    """95 % interval in ms of a percentile of merged rounds, over the rounds.

    None for fewer than 5, or where it lies among failed requests.

    Rounds differ by more than the samples of one do, so that the order statistics of all together would promise too
    much. Student's t with the bootstrap's standard error, on the logarithms.
    """
    if len(rounds) < MINIMUM_PAIRS:
        return None
    logs = np.log(_merged(rounds, percentile, np.random.default_rng(0)))
    if not np.isfinite(logs).all():
        return None
    half = _half_width([(_variance(logs, len(rounds)), len(rounds))], CONFIDENCE)
    value = merge(rounds).percentile(percentile)
    return [value * math.exp(-half), value * math.exp(half)]


def merge(rounds: Sequence[Histogram]) -> Histogram:
    """All rounds' samples together."""
    merged = Histogram()
    for histogram in rounds:
        merged.merge(histogram)
    return merged


def mean_interval(values: Sequence[float], *, least: float = -math.inf) -> list[float] | None:
    """95 % interval of the mean over rounds, by Student's t, not below `least`; None for fewer than 5."""
    if len(values) < MINIMUM_PAIRS:
        return None
    half = _half_width([(statistics.variance(values) / len(values), len(values))], CONFIDENCE)
    mean = statistics.fmean(values)
    return [max(mean - half, least), mean + half]


def quotient_interval(parts: Sequence[tuple[float, float]]) -> list[float] | None:
    """95 % interval of a sum over another one, as joules over inferences, given in parts: windows or rounds.

    None for fewer than 5. The ratio estimator with Student's t (Cochran, Sampling Techniques, section 6.3). Of parts
    that follow each other and are alike, pairs are taken where they make the wider interval.
    """
    pairs = [(a + c, b + d) for (a, b), (c, d) in zip(parts[::2], parts[1::2], strict=False)]
    enough = [each for each in (parts, pairs) if len(each) >= MINIMUM_PAIRS]
    whole, below = (math.fsum(each) for each in zip(*parts, strict=True)) if parts else (0.0, 0.0)
    if not enough or not below:
        return None
    value = whole / below
    half = max(_quotient_half_width(each, value) for each in enough)
    return [max(value - half, 0.0), value + half]


def _quotient_half_width(parts: Sequence[tuple[float, float]], value: float) -> float:
    count = len(parts)
    mean = math.fsum(below for _, below in parts) / count
    squares = math.fsum((above - value * below) ** 2 for above, below in parts)
    return _half_width([(squares / (count - 1) / count / mean**2, count)], CONFIDENCE)


def variation(values: Sequence[float | None]) -> float | None:
    """The coefficient of variation, standard deviation over mean; None for fewer than 4 values or unknown ones."""
    known = [value for value in values if value is not None]
    if len(known) < max(len(values), MINIMUM_REPEATS) or not statistics.fmean(known):
        return None
    return statistics.stdev(known) / statistics.fmean(known)


def share_difference(
    first: tuple[int, int], second: tuple[int, int], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The interval of first - second, two shares given as (count, of how many).

    Newcombe's hybrid of two Wilson intervals (Statistics in Medicine 17, 1998, method 10), right also for shares of 0.
    """
    (low_p, high_p), (low_q, high_q) = (share_interval(*share, confidence) for share in (first, second))
    p, q = (count / total for count, total in (first, second))
    return p - q - math.hypot(p - low_p, high_q - q), p - q + math.hypot(high_p - p, q - low_q)


def difference_of_means(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the interval of the mean of `first` less that of `second`, at least 2 values each: Welch's t test."""
    middle = statistics.fmean(first) - statistics.fmean(second)
    half = _half_width([(statistics.variance(each) / len(each), len(each)) for each in (first, second)], confidence)
    return middle - half, middle + half


def share_interval(count: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of a share: Wilson's score interval, which has a width for shares of 0 and 1 too.

    Brown, Cai & DasGupta, Interval Estimation for a Binomial Proportion, Statistical Science 16, 2001, section 3.1.1.
    """
    from scipy.special import ndtri

    z, share = float(ndtri((1 + confidence) / 2)), count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _ratio(logarithm: float, variances: Sequence[tuple[float, int]], confidence: float, slack: float) -> Ratio:
    """Return the ratio whose logarithm was estimated, with estimates of variance as in `_half_width`."""
    from scipy.special import stdtr

    half = _half_width(variances, confidence) + math.log1p(slack)
    error, freedom = _student(variances)
    beyond = max(abs(logarithm) - math.log1p(slack), 0.0)
    p_value = 2 * float(stdtr(freedom, -beyond / error)) if error else float(beyond == 0)
    return Ratio(math.exp(logarithm), math.exp(logarithm - half), math.exp(logarithm + half), p_value)


def _half_width(variances: Sequence[tuple[float, int]], confidence: float) -> float:
    """Half an interval of Student's t, of estimates given as (variance, values it rests on)."""
    from scipy.special import stdtrit

    error, freedom = _student(variances)
    return float(stdtrit(freedom, (1 + confidence) / 2)) * error if error else 0.0


def _student(variances: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return the standard error and the degrees of freedom: Welch's and Satterthwaite's, or of one sample its own."""
    whole = sum(variance for variance, _ in variances)
    squares = sum(variance**2 / (count - 1) for variance, count in variances)
    return (math.sqrt(whole), whole**2 / squares) if squares else (0.0, 1.0)


def _variance(drawn: Floats, count: int) -> float:
    """The variance of an estimate from its bootstrap over `count` values, which lacks a factor of n / (n - 1)."""
    return float(drawn.var()) * count / (count - 1)


def _merged(rounds: Sequence[Histogram], percentile: float, rng: np.random.Generator) -> Floats:
    """A percentile in ms of merged rounds, for rounds drawn with replacement."""
    used = np.flatnonzero(sum(histogram.counts for histogram in rounds))
    counts = np.stack([np.append(histogram.counts[used], histogram.failed) for histogram in rounds])
    values = np.array([*(Histogram.value_ms(int(slot)) for slot in used), math.inf])
    times = rng.multinomial(len(rounds), np.full(len(rounds), 1 / len(rounds)), RESAMPLES // 5)
    cumulated = np.cumsum(times @ counts, axis=1)
    ranks = np.maximum(np.ceil(cumulated[:, -1:] * percentile / 100), 1)
    found: Floats = values[(cumulated < ranks).sum(axis=1)]
    return found


def expanded(count: int) -> tuple[float, float]:
    """The quantiles of bootstrap means that make an interval of 95 % from few samples.

    The plain 2.5 % and 97.5 % ones cover the truth in 84 of 100 cases at 5 samples, since a bootstrap has no factor
    n / (n - 1) and no t for the normal's quantile. T. Hesterberg's expanded percentiles fix both (What Teachers Should
    Know About the Bootstrap, The American Statistician 69, 2015, section 3.3): 92 of 100.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(math.sqrt(count / (count - 1)) * stdtrit(count - 1, (1 - CONFIDENCE) / 2)))
    return tail, 1 - tail


def _log_e_value(logs: Sequence[float], margin: float) -> float:
    """Logarithm of the evidence against a mean of 0, or within the margin around it."""
    count, beyond = len(logs), max(abs(statistics.fmean(logs)) - margin, 0.0)
    variance, spread = _sample_variance(logs), 1 + PRIOR_VARIANCE * count
    if not beyond:
        return -0.5 * math.log(spread)
    if not variance:
        return 0.5 * (count - 1) * math.log(spread)
    squared = count * beyond**2 / (variance * (count - 1))  # t squared / its degrees of freedom
    return 0.5 * (count * (math.log1p(squared) - math.log1p(squared / spread)) - math.log(spread))


def _anytime_half_width(logs: Sequence[float]) -> float:
    """Half of the interval of the means that the test does not reject; infinite where so few values reject none."""
    count, spread = len(logs), 1 + PRIOR_VARIANCE * len(logs)
    growth = (math.sqrt(spread) / (1 - CONFIDENCE)) ** (2 / count)
    if growth >= spread:
        return math.inf
    squared = (growth - 1) / (1 - growth / spread)
    return math.sqrt(_sample_variance(logs) * squared * (count - 1) / count)


def _sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance; that of `statistics` computes with fractions, which takes many times as long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
