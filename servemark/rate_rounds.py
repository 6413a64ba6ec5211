"""The last word on a winner: its rate and the present one's, found again in interleaved rounds."""

import warnings
from collections.abc import Callable
from dataclasses import replace

from servemark.max_rate import BROKEN, TOLERANCE, Point
from servemark.ratios import Ratio, ratio_of_repeats

MOST_RUNS = 6
"""Of one side in one round."""


def around(measure: Callable[[float], Point], start: float, most_runs: int = MOST_RUNS) -> tuple[float | None, bool]:
    """The highest rate met, by steps of the search's tolerance from where it was found before.

    It goes up while rates are met, else down until one is. A doubtful run is made once more. The second value tells
    whether the generator, not the server, set the limit; then, and where the runs were used up, the rate is a lower
    bound. None: no rate was met.
    """
    rate, met, missed, limited, left = _rounded(start), None, False, False, most_runs
    while left > 0:
        point = measure(rate)
        left -= 1
        if point.doubtful and left > 0:
            point = measure(rate)
            left -= 1
        if point.valid:
            met = rate
            if missed:
                break
            rate = _rounded(rate * (1 + TOLERANCE))
            continue
        missed = True
        limited |= point.generator_limits
        if met is not None or point.failed & BROKEN:
            break
        rate = _rounded(rate / (1 + TOLERANCE))
    return met, limited


def _rounded(rate: float) -> float:
    """To six digits, so that a step up and one down lead back to the same rate."""
    return float(f"{rate:.6g}")


def rate_ratio(rates: list[float], others: list[float]) -> Ratio:
    """The ratio of two sides' rates with its 95 % interval, at least two rounds of each.

    A rate that was met lies up to one step of the search below what the server can do: the interval is wider by that.
    """
    with warnings.catch_warnings():
        # One side may have found the same rate in each round, of which SciPy warns.
        warnings.simplefilter("ignore", RuntimeWarning)
        ratio = ratio_of_repeats(rates, others)
    if ratio.low is None or ratio.high is None:
        return ratio
    return replace(ratio, low=ratio.low / (1 + TOLERANCE), high=ratio.high * (1 + TOLERANCE))
