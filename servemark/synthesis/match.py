"""Distances between layers of one kind and those of several workloads, each of which has the same weight."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from servemark.synthesis.layers import Layer, Layers

Floats = npt.NDArray[np.float64]
LINEAR = {"kernel", "stride"}
"""Features that are compared as they are. Of all others ratios matter: they are compared as logarithms to base 2."""
TOTALS = {"flops": 10.0, "parameters": 10.0, "bytes": 6.0}
"""Total -> its weight. At 10, 1 % off counts as 0.1 standard deviations of one feature. Bytes have the least, because
one layer cannot always meet all three, and operations and parameters say more about a network."""


def values(layers: Sequence[Layer], feature: str) -> Floats:
    """Return a feature of each layer, as it is compared."""
    found = np.array([getattr(layer, feature) for layer in layers], np.float64)
    return found if feature in LINEAR else np.log2(np.maximum(found, 1))


@dataclass(frozen=True)
class Target:
    """Statistics that the layers of one kind shall have: of one mean workload."""

    layers: int
    quantiles: dict[str, Floats]
    """Feature -> its values at as many quantiles as there are layers, ascending."""
    scales: dict[str, float]
    """Feature -> its standard deviation, or 1 where all layers are alike."""
    totals: dict[str, float]
    """Operations, parameters and bytes of all layers."""

    @classmethod
    def of(cls, given: Sequence[Layers], kind: type[Layer], number: int = 0) -> "Target":
        """Average the workloads' layers of a kind, at as many quantiles as that number of layers needs.

        0: their mean number, rounded up, because one layer more leaves the totals a choice.
        """
        groups = [found for each in given if (found := each.of(kind))]
        every = [layer for group in groups for layer in group]
        number = number or math.ceil(fmean(len(each.of(kind)) for each in given))
        weights = np.concatenate([np.full(len(group), 1 / len(group)) for group in groups])
        quantiles, scales = {}, {}
        for feature in kind.FEATURES:
            figures = values(every, feature)
            quantiles[feature] = figures[places_of(figures, weights, number)]
            middle = np.average(figures, weights=weights)
            scales[feature] = float(np.sqrt(np.average((figures - middle) ** 2, weights=weights))) or 1.0
        return cls(
            number,
            quantiles,
            scales,
            {name: fmean(total(each.of(kind), name) for each in given) for name in TOTALS},
        )

    def distances(self, layers: Sequence[Layer], feature: str) -> tuple[float, float]:
        """Return Wasserstein's distance, in standard deviations, and Kolmogorov and Smirnov's."""
        ours, theirs = values(layers, feature), self.quantiles[feature]
        return wasserstein(ours, theirs) / self.scales[feature], kolmogorov_smirnov(ours, theirs)


def total(layers: Iterable[Layer], figure: str) -> float:
    """Add up a figure of layers."""
    return float(sum(getattr(layer, figure) for layer in layers))


def places_of(found: Floats, weights: Floats, number: int) -> npt.NDArray[np.int64]:
    """Return the places of weighted quantiles at the middles of `number` equal parts."""
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    middles = (np.arange(number) + 0.5) / number
    places: npt.NDArray[np.int64] = order[np.searchsorted(reached, middles - 1e-12).clip(max=len(found) - 1)]
    return places


def wasserstein(ours: Floats, theirs: Floats) -> float:
    """Return the distance of two samples of equal size, the second ascending (Vallender 1974)."""
    return float(np.abs(np.sort(ours) - theirs).mean())


def kolmogorov_smirnov(ours: Floats, theirs: Floats) -> float:
    """Return the largest distance of the two distribution functions."""
    places = np.concatenate([ours, theirs])
    below = [np.searchsorted(np.sort(each), places, side="right") / len(each) for each in (ours, theirs)]
    return float(np.abs(below[0] - below[1]).max())


def misfit(layers: Sequence[Layer], target: Target) -> float:
    """Return what a search makes small: distances in standard deviations, and totals that are off."""
    far = sum(
        wasserstein(values(layers, feature), theirs) / target.scales[feature]
        for feature, theirs in target.quantiles.items()
    )
    return far + sum(
        weight * abs(math.log(max(total(layers, name), 1.0) / target.totals[name]))
        for name, weight in TOTALS.items()
        if target.totals[name]
    )
