"""The search: totals and distributions of made-up networks are met, and equal seeds give equal chains."""

import numpy as np
import pytest

from servemark.synthesis.layers import Convolution, Dense, Embedding, Layers
from servemark.synthesis.plan import (
    LANES,
    Chain,
    Link,
    Target,
    _resized,
    kolmogorov_smirnov,
    ordered,
    search_chain,
    search_layers,
    total,
    wasserstein,
)


def made_up(name: str, widths: tuple[int, ...], kernel: int, side: int = 32) -> Layers:
    """A chain whose sides halve after every third layer."""
    layers, inputs = [], 3
    for number, width in enumerate(widths):
        layers.append(Convolution(kernel if number % 2 else 1, 1, inputs, width, side >> number // 3))
        inputs = width
    return Layers(name, (*layers, Dense(1, inputs, 1000)))


GIVEN = (made_up("a", (16, 16, 32, 32, 64, 64, 128, 128, 256), 3), made_up("b", (24, 24, 48, 48, 96, 96, 96), 5))
TARGET = Target.of(GIVEN, Convolution)


def test_totals_are_those_of_the_mean_workload() -> None:
    layers = search_chain(GIVEN, 0, steps=6000).layers()
    assert layers is not None
    assert len(layers) == TARGET.layers == 8
    assert {name: total(layers, name) for name in TARGET.totals} == pytest.approx(TARGET.totals, rel=0.05)
    distances = [TARGET.distances(layers, feature)[0] for feature in Convolution.FEATURES]
    assert sum(distances) / len(distances) < 0.5


def test_channels_are_multiples_of_what_engines_block_by() -> None:
    """ONNX Runtime took 1.5 times as long where they were not."""
    wide = [made_up("a", (64, 64, 128, 128, 256, 256, 256, 256, 512), 3), made_up("b", (96, 96, 192, 192, 192, 384), 5)]
    found = search_chain(wide, 0, steps=3000)
    assert {link.width % LANES for link in found.links} == {0}
    assert len({link.width for link in found.links} - {64, 96, 128, 192, 256, 384, 512}) > 0


def test_equal_seeds_give_equal_chains_and_another_seed_another() -> None:
    first, again, other = (search_chain(GIVEN, seed, steps=500) for seed in (1, 1, 2))
    assert first == again != other


def test_a_chain_ends_where_the_picture_is_used_up() -> None:
    links = [Link(3, 1, 8, pooled=True)] * 5
    assert Chain(3, 32, tuple(links)).layers() is not None
    assert Chain(3, 16, tuple(links)).layers() is None


def test_layers_of_one_workload_are_its_own() -> None:
    own = (Dense(8, 64, 32), Dense(8, 32, 32, tied=True), Dense(1, 32, 500, calls=7))
    assert sorted(map(repr, search_layers([Layers("a", own)], Dense, 0, steps=3))) == sorted(map(repr, own))


def test_layers_of_two_workloads_meet_their_mean_totals() -> None:
    given = [
        Layers("a", tuple(Dense(10, width, 2 * width) for width in (16, 32, 64, 128))),
        Layers("b", (Dense(1, 300, 400, calls=20), Dense(1, 400, 50, calls=20))),
    ]
    found, target = search_layers(given, Dense, 0, steps=3000), Target.of(given, Dense)
    assert len(found) == 3
    assert {name: total(found, name) for name in target.totals} == pytest.approx(target.totals, rel=0.05)


def test_totals_are_met_where_a_tied_table_may_find_no_owner() -> None:
    given = [
        Layers("a", (Embedding(900, 64, 5), *[Embedding(900, 64, 1, tied=True, calls=calls) for calls in (5, 6, 7)])),
        Layers("b", (Embedding(40, 8, 1), Embedding(70, 8, 9))),
    ]
    target = Target.of(given, Embedding)
    for seed in range(8):
        found = ordered(search_layers(given, Embedding, seed, steps=2000))
        assert {name: total(found, name) for name in target.totals} == pytest.approx(target.totals, rel=0.05)


def test_a_table_that_is_resized_takes_those_tied_to_it_with_it() -> None:
    """A tied layer that changes alone would find no table of its sizes, and its parameters would count twice."""
    owner, tied, other = Embedding(90, 8, 5), Embedding(90, 8, 1, tied=True), Embedding(90, 8, 2)
    layers = (owner, tied, other)
    assert _resized(layers, 0, "rows", 50) == (Embedding(50, 8, 5), Embedding(50, 8, 1, tied=True), other)
    assert _resized(layers, 1, "rows", 50) == (owner, Embedding(50, 8, 1), other)
    assert _resized(layers, 1, "lookups", 3) == (owner, Embedding(90, 8, 3, tied=True), other)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_distances_of_known_samples(shift: float) -> None:
    theirs = np.arange(10.0)
    assert wasserstein(theirs[::-1] + shift, theirs) == pytest.approx(shift)
    assert kolmogorov_smirnov(theirs + 20, theirs) == 1
    assert kolmogorov_smirnov(theirs, theirs) == 0
