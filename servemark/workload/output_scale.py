"""Sizes that an output's errors are measured against: how far its golden answers differ from one another.

An output may be a probability of 1e-6 or a coordinate of 1,000. An error says something only beside the differences
that the model makes between samples.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Figures = npt.NDArray[np.float64]

FEW_SAMPLES = 8
"""With fewer samples two values may be close by chance, and an element's spread is too small."""
SHARE_OF_ALL = 0.1
"""With few samples an element's spread counts as at least this share of the whole output's."""
CROSS_SHARE = 1e-3
"""Of any element at least this share of the whole output's spread counts: beside a probability of 1, one of 1e-9 is 0.

Times `spread_rtol` it is 5e-6, forty times the rounding of one float32.
"""


@dataclass(frozen=True)
class OutputScale:
    """Centre and spread of an output's elements over the golden samples; NaN and infinity do not count."""

    centre: Figures
    """Median of each element over the samples: [elements]."""
    spread: Figures
    """Median distance of each element from its centre: [elements]. One outlier does not widen it."""
    whole: float
    """Spread of the whole output: of its samples' root mean squares the median."""
    level: float
    """Size of the whole output, spread and common offset: of its samples' root mean squares the median."""

    @classmethod
    def of(cls, reference: npt.NDArray[np.generic]) -> "OutputScale":
        """Measure the golden answers of one floating-point output, a row for each sample."""
        values = flat(reference)
        if not values.size:
            empty = np.zeros(values.shape[1])
            return cls(empty, empty, 0.0, 0.0)
        values = np.where(np.isfinite(values), values, np.nan)
        centre = _median(values)
        distance = np.abs(values - centre)
        whole = _typical(distance)
        if whole == 0:  # one sample, or a constant: its elements differ from one another, or from 0
            whole = _typical(values - np.nan_to_num(_median(values.T))[:, None]) or _typical(values)
        spread = _median(distance)
        if len(values) < FEW_SAMPLES:
            spread = np.maximum(spread, SHARE_OF_ALL * whole)
        return cls(centre, np.maximum(spread, CROSS_SHARE * whole), whole, _typical(values))

    def sizes(self, reference: Figures) -> Figures:
        """Return what each element's error is measured against: its spread, or its own distance from the centre."""
        sizes: Figures = np.maximum(self.spread, np.nan_to_num(np.abs(reference - self.centre), posinf=0))
        return sizes

    def lengths(self, reference: Figures) -> Figures:
        """Return what the length of each row's error is measured against: [rows]."""
        distance = np.nan_to_num(np.abs(reference - self.centre), posinf=0)
        least = self.whole * np.sqrt(reference.shape[1])
        lengths: Figures = np.maximum(np.sqrt((distance**2).sum(axis=1)), least)
        return lengths


def flat(array: npt.NDArray[np.generic]) -> Figures:
    """Return the rows' elements in double precision: [rows, elements]."""
    return array.astype(np.float64).reshape(len(array), -1)


def _median(values: Figures) -> Figures:
    """Return the median of each column's known values, 0 where there are none."""
    known = ~np.isnan(values).all(axis=0)
    found = np.zeros(values.shape[1])
    found[known] = np.nanmedian(values[:, known], axis=0)
    return found


def _typical(distance: Figures) -> float:
    """Return the median over the rows of their root mean squares."""
    squares = np.nanmean(np.where(np.isnan(distance).all(axis=1)[:, None], 0, distance) ** 2, axis=1)
    return float(np.median(np.sqrt(squares)))
