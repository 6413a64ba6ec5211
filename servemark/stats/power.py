"""Power of a comparison: the smallest difference it can detect, and the number of runs for a smaller one.

Both follow from the interval's width alone, so they hold for every method that makes one.
"""

import math

from servemark.stats.ratios import Ratio

POWER = 0.8
"""Share of cases that the recommended number of runs decides (Cohen, Statistical Power Analysis, section 2.4: 0.80)."""
MAX_RUNS = 1000


def detectable(ratio: Ratio) -> float | None:
    """The smallest difference, as a share, that the interval leaves out where the sides are alike; None: no interval.

    With h its half width in logarithms the interval about 1 ends at exp(h). It is also the smallest ratio that would
    have been called significant.
    """
    return None if ratio.half_width is None else math.expm1(ratio.half_width)


def runs_needed(
    ratio: Ratio, runs: tuple[int, int], share: float, confidence: float, *, paired: bool = False
) -> int | None:
    """Return the runs on each side that detect a difference in POWER of all cases; None: over MAX_RUNS.

    The half width is t(confidence) * s * sqrt(1/a + 1/b), with s what one run varies by and a and b the runs; in pairs
    t(confidence) * s * sqrt(1/a). That gives s, and the smallest n with (t(confidence) + t(POWER)) * s * sqrt(2/n)
    below the logarithm of the difference, or sqrt(1/n) in pairs (Chow, Shao and Wang, Sample Size Calculations in
    Clinical Research, section 3.2.2). t has the degrees of freedom of these runs.
    """
    from scipy.special import stdtrit

    if ratio.half_width is None or share <= 0:
        return None
    upper = (1 + confidence) / 2
    freedom = min(runs) - 1 if paired else sum(runs) - 2
    spread = 1 / min(runs) if paired else 1 / runs[0] + 1 / runs[1]
    one_run = ratio.half_width / float(stdtrit(freedom, upper)) / math.sqrt(spread)
    for count in range(2, MAX_RUNS + 1):
        freedom = count - 1 if paired else 2 * count - 2
        factor = float(stdtrit(freedom, upper)) + float(stdtrit(freedom, POWER))
        if factor * one_run * math.sqrt((1 if paired else 2) / count) <= math.log1p(share):
            return count
    return None
