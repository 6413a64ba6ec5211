"""End of a series' initial transient: MSER, White's rule for the truncation of a simulation's start."""

import numpy as np
import numpy.typing as npt

METHOD = "MSER"
LAST = 5
"""Minimum number of values kept, because a few that happen to be alike would look like the steadiest end."""
IRRELEVANT = 0.05
"""Values that differ by at most this share of their mean need no cutting: otherwise a series that nears its end value
has no steady part."""


def truncation_point(values: npt.NDArray[np.float64]) -> int:
    """Return the number of first values to leave out, of more than LAST.

    The marginal standard error of what is kept, s / sqrt(n - d), is smallest when d values are left out (K. P. White,
    An Effective Truncation Heuristic for Bias Reduction in Simulation Output, Simulation 69, 1997). A d beyond n / 2
    says that the series is too short to tell (K. Hoad, S. Robinson, R. Davies, Automating Warm-Up Length Estimation,
    Journal of the Operational Research Society 61, 2010). Ours: s is not taken below 5 % of the mean.
    """
    kept = np.arange(len(values), LAST - 1, -1)
    # About the mean of all, so that the difference of squares keeps its digits.
    middle = values.mean()
    centred = values[::-1] - middle
    means = np.cumsum(centred)[::-1][: len(kept)] / kept
    variances = np.cumsum(centred**2)[::-1][: len(kept)] / kept - means**2
    return int(np.argmin((variances + (IRRELEVANT * (means + middle)) ** 2) / kept))
