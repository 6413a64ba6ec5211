"""Power of a comparison: the smallest difference it can detect, and the number of runs for a smaller one.

Both follow from the interval's width alone, so they hold for every method that makes one.
"""

import math

from servemark.stats.percentiles import CONFIDENCE
from servemark.stats.ratios import Ratio

POWER = 0.8
"""Share of cases that the recommended number of runs decides (Cohen, Statistical Power Analysis, section 2.4: 0.80)."""
MAX_RUNS = 1000


def detectable(
    ratio: Ratio, runs: tuple[int, int], confidence: float = CONFIDENCE, *, paired: bool = False
) -> float | None:
    """Return the smallest difference, as a share, that is found in POWER of all cases; None: no interval.

    With h half the interval's width in logarithms, a difference of h is found in half of the cases. One of
    h * (t(confidence) + t(POWER)) / t(confidence) is found in 80 % of them (Hoenig and Heisey, The Abuse of Power, The
    American Statistician 55, 2001). `runs` on each side give the degrees of freedom.
    """
    from scipy.special import stdtrit

    if ratio.half_width is None:
        return None
    freedom = max(min(runs) - 1 if paired else sum(runs) - 2, 1)
    chance, power = (float(stdtrit(freedom, level)) for level in ((1 + confidence) / 2, POWER))
    return math.expm1(ratio.half_width * (chance + power) / chance)


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
