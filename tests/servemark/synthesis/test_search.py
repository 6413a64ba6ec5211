"""The search: totals and distributions of made-up networks are met, and equal seeds give equal chains."""

import numpy as np
import pytest

from servemark.synthesis import match
from servemark.synthesis.layers import Layer, Layers
from servemark.synthesis.search import Chain, Link, search


def made_up(name: str, widths: tuple[int, ...], kernel: int, side: int = 32) -> Layers:
    """A chain whose sides halve after every third layer."""
    layers, inputs = [], 3
    for number, width in enumerate(widths):
        layers.append(Layer(kernel if number % 2 else 1, 1, inputs, width, side >> number // 3))
        inputs = width
    return Layers(name, tuple(layers), ((inputs, 1000),), 0.0)


GIVEN = (made_up("a", (16, 16, 32, 32, 64, 64, 128, 128, 256), 3), made_up("b", (24, 24, 48, 48, 96, 96, 96), 5))
TARGET = match.Target.of(GIVEN)


def test_totals_are_those_of_the_mean_workload() -> None:
    layers = search(GIVEN, TARGET, 0, steps=6000).layers()
    assert layers is not None
    assert len(layers) == TARGET.layers == 8
    assert abs(sum(layer.flops for layer in layers) / TARGET.flops - 1) < 0.05
    assert abs(sum(layer.parameters for layer in layers) / TARGET.parameters - 1) < 0.05
    distances = [
        match.wasserstein(match.values(layers, feature), TARGET.quantiles[feature]) / TARGET.scales[feature]
        for feature in match.FEATURES
    ]
    assert sum(distances) / len(distances) < 0.5


def test_equal_seeds_give_equal_chains_and_another_seed_another() -> None:
    first, again, other = (search(GIVEN, TARGET, seed, steps=500) for seed in (1, 1, 2))
    assert first == again != other


def test_a_chain_ends_where_the_picture_is_used_up() -> None:
    links = [Link(3, 1, 8, pooled=True)] * 5
    assert Chain(32, tuple(links)).layers() is not None
    assert Chain(16, tuple(links)).layers() is None


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_distances_of_known_samples(shift: float) -> None:
    theirs = np.arange(10.0)
    assert match.wasserstein(theirs[::-1] + shift, theirs) == pytest.approx(shift)
    assert match.kolmogorov_smirnov(theirs + 20, theirs) == 1
    assert match.kolmogorov_smirnov(theirs, theirs) == 0
