"""Popularity of ids, and lengths of sequences.

Which id is popular has a constant seed, so it is the same in every process; the caller's generator draws.
"""

from statistics import NormalDist
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PERMUTATION_SEED = 20200413


class Popularity:
    """Ids drawn by popularity: `weights` go from the most to the least popular rank, ids from `first_id` upwards.

    Which id holds which rank is one fixed permutation, so that popular rows lie scattered over an embedding table.
    """

    def __init__(self, weights: Floats, *, first_id: int = 0) -> None:
        self._cumulative = np.cumsum(weights / weights.sum())
        self._ids = np.random.default_rng([PERMUTATION_SEED, len(weights)]).permutation(len(weights)) + first_id

    @classmethod
    def zipf(cls, count: int, *, s: float, q: float = 0.0, first_id: int = 0) -> Self:
        """Follow Zipf-Mandelbrot: p(rank) proportional to 1 / (rank + q)^s over ranks 1 to `count`."""
        return cls((np.arange(1, count + 1) + q) ** -s, first_id=first_id)

    @classmethod
    def lognormal(cls, count: int, *, median: float, sigma: float, lo: float, hi: float) -> Self:
        """Weigh users by how often they act: exp(N(ln median, sigma)) times, clipped to [lo, hi]."""
        quantiles = (np.arange(count) + 0.5) / count
        activity = median * np.exp(sigma * np.array([NormalDist().inv_cdf(1 - q) for q in quantiles]))
        return cls(np.clip(activity, lo, hi))

    def __len__(self) -> int:
        return len(self._ids)

    def draw_ranks(self, rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
        """Draw `size` ranks, 0 for the most popular."""
        ranks = np.searchsorted(self._cumulative, rng.random(size), side="right")
        return np.minimum(ranks, len(self) - 1)  # the cumulative sum may end a rounding error below 1

    def ids(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Map ranks to the ids that hold them."""
        return self._ids[ranks].astype(np.int32)

    def draw(self, rng: np.random.Generator, size: int) -> npt.NDArray[np.int32]:
        return self.ids(self.draw_ranks(rng, size))


class Lengths:
    """Sequence lengths round(exp(N(ln m, sigma))) clipped to [lo, hi], with m such that the clipped mean is `mean`."""

    def __init__(self, mean: float, sigma: float, lo: int, hi: int) -> None:
        if not lo < mean < hi:
            raise ValueError(f"a mean of {mean} does not lie between {lo} and {hi}")
        self._sigma, self._lo, self._hi = sigma, lo, hi
        spread = sigma * np.array([NormalDist().inv_cdf((i + 0.5) / 2000) for i in range(2000)])
        low, high = np.log(lo) - 5 * sigma, np.log(hi) + 5 * sigma
        for _ in range(60):  # bisection on ln m: the clipped mean rises with it
            self._log_m = (low + high) / 2
            if self._clip(np.exp(self._log_m + spread)).mean() < mean:
                low = self._log_m
            else:
                high = self._log_m

    def _clip(self, lengths: Floats) -> Floats:
        return np.clip(np.round(lengths), self._lo, self._hi)

    def draw(self, rng: np.random.Generator) -> int:
        return int(self._clip(np.exp(rng.normal(self._log_m, self._sigma, size=1)))[0])
