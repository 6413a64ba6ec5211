"""Arrival schedules of the open loop: generated whole, ahead of time, from a seed."""

from enum import StrEnum

import numpy as np
import numpy.typing as npt


class Distribution(StrEnum):
    """How the gaps between arrivals are distributed."""

    POISSON = "poisson"
    CONSTANT = "constant"


def schedule(distribution: Distribution, rate: float, duration_s: float, seed: int) -> npt.NDArray[np.int64]:
    """Arrival times in ns from the start, ascending, within [0, duration_s); `rate` is in requests per second.

    Poisson arrivals have independent exponential gaps: what many independent clients look like (MLPerf Inference rules,
    Server scenario). Constant arrivals are 1/rate apart. Equal arguments give equal schedules.
    """
    if distribution is Distribution.CONSTANT:
        # Multiplying, not summing: a summed gap would drift by its rounding error.
        arrivals_s = np.arange(int(np.ceil(rate * duration_s))) / rate
    else:
        arrivals_s = _poisson(rate, duration_s, np.random.default_rng(seed))
    return (arrivals_s[arrivals_s < duration_s] * 1e9).astype(np.int64)


def _poisson(rate: float, duration_s: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Cumulated exponential gaps until the duration is covered."""
    arrivals = np.empty(0)
    while not arrivals.size or arrivals[-1] < duration_s:
        last = arrivals[-1] if arrivals.size else 0.0
        expected = rate * (duration_s - last)
        gaps = rng.exponential(1 / rate, size=int(expected + 4 * np.sqrt(expected)) + 16)
        arrivals = np.concatenate([arrivals, last + np.cumsum(gaps)])
    return arrivals
