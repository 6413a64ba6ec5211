"""Shares of a run's load: each of several processes sends one, so that all shares together are the whole."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")


@dataclass(frozen=True)
class Share:
    """Every `of`-th arrival from the one with number `index` on, and the request that one process would send with it.

    All processes make the same whole schedule from the seed, so what they send together is that schedule itself, not
    one like it: the superposition of thinned processes would be Poisson only for Poisson arrivals (Cinlar, Introduction
    to Stochastic Processes, section 4.5).
    """

    index: int = 0
    of: int = 1

    def arrivals(self, whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This part's arrivals."""
        return whole[self.index :: self.of]

    def requests(self, whole: Iterator[Item]) -> Iterator[Item]:
        """This part's requests: each arrival has the one that it has in the whole."""
        return whole if self.of == 1 else itertools.islice(whole, self.index, None, self.of)

    def count(self, whole: int) -> int:
        """This part of a number of connections; the parts differ by one at most."""
        return whole // self.of + (self.index < whole % self.of)


ALL = Share()
