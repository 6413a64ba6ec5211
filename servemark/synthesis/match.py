"""Distances between the layers of a chain and those of several workloads, each of which has the same weight."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servemark.synthesis.layers import Layer, Layers

Floats = npt.NDArray[np.float64]
FEATURES = ("kernel", "stride", "inputs", "outputs", "side", "flops", "bytes")
LOGARITHMIC = {"inputs", "outputs", "side", "flops", "bytes"}
"""Features whose ratios matter: they are compared as logarithms to base 2."""
TOTALS = 10.0
"""Weight of the totals: 1 % off counts as 0.1 standard deviations of one feature."""


def values(layers: Sequence[Layer], feature: str) -> Floats:
    """Return a feature of each layer, as it is compared."""
    found = np.array([getattr(layer, feature) for layer in layers], np.float64)
    return np.log2(np.maximum(found, 1)) if feature in LOGARITHMIC else found


@dataclass(frozen=True)
class Target:
    """Statistics that a chain shall have: of one mean workload."""

    layers: int
    """Number of convolutions."""
    quantiles: dict[str, Floats]
    """Feature -> its values at as many quantiles as there are layers, ascending."""
    scales: dict[str, float]
    """Feature -> its standard deviation, or 1 where all layers are alike."""
    flops: float
    parameters: float
    connected: int
    """Number of fully connected layers."""
    connected_parameters: float

    @classmethod
    def of(cls, given: Sequence[Layers], number: int = 0) -> "Target":
        """Average the workloads, with as many quantiles as a chain of that number of convolutions needs; 0: theirs."""
        number = number or max(round(mean(len(each.convolutions) for each in given)), 2)
        weights = np.concatenate([np.full(len(each.convolutions), 1 / len(each.convolutions)) for each in given])
        every = [layer for each in given for layer in each.convolutions]
        quantiles, scales = {}, {}
        for feature in FEATURES:
            found = values(every, feature)
            quantiles[feature] = _quantiles(found, weights, number)
            middle = np.average(found, weights=weights)
            scales[feature] = float(np.sqrt(np.average((found - middle) ** 2, weights=weights))) or 1.0
        return cls(
            number,
            quantiles,
            scales,
            flops=mean(sum(layer.flops for layer in each.convolutions) for each in given),
            parameters=mean(sum(layer.parameters for layer in each.convolutions) for each in given),
            connected=math.ceil(mean(len(each.connected) for each in given)),
            connected_parameters=mean(sum(a * b for a, b in each.connected) for each in given),
        )


def mean(figures: Iterable[float]) -> float:
    """Return the arithmetic mean."""
    found = [float(each) for each in figures]
    return sum(found) / len(found)


def _quantiles(found: Floats, weights: Floats, number: int) -> Floats:
    """Return weighted quantiles at the middles of `number` equal parts."""
    order = np.argsort(found, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    middles = (np.arange(number) + 0.5) / number
    taken: Floats = found[order][np.searchsorted(reached, middles - 1e-12).clip(max=len(found) - 1)]
    return taken


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
        wasserstein(values(layers, feature), target.quantiles[feature]) / target.scales[feature] for feature in FEATURES
    )
    flops, parameters = sum(layer.flops for layer in layers), sum(layer.parameters for layer in layers)
    return far + TOTALS * (abs(math.log(flops / target.flops)) + abs(math.log(parameters / target.parameters)))
