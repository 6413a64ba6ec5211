"""Parts of a synthetic network in their order: a chain of convolutions, what runs once or in a loop; their search.

The search makes the distance small between layers of one kind and those of several workloads, each of which has the
same weight.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from servemark.synthesis.layers import Convolution, Dense, Embedding, Layer, Layers, SequenceLayer
from servemark.workload import Tensor

Floats = npt.NDArray[np.float64]
IMAGE, FEATURES, IDS = "image", "features", "ids"
"""Names of the inputs."""
STEPS = 40_000
HOT, COLD = 0.5, 0.002
"""First and last temperature, in units of the misfit."""
MOVED = 6
"""Most links by which a halving moves at once."""
NARROWER, WIDER = 0.85, 1.18
"""Bounds of the factor by which a size changes at once."""
LANES = 16
"""Floats of an AVX-512 register. Engines block channels by it, and compute others in slower kernels."""
FEW = 8
"""A chain of fewer convolutions than this cannot meet the totals in steps of `LANES`."""
State = TypeVar("State")
LINEAR = {"kernel", "stride"}
"""Features that are compared as they are. Of all others ratios matter: they are compared as logarithms to base 2."""
TOTALS = {"flops": 10.0, "parameters": 10.0, "bytes": 6.0}
"""Total -> its weight. At 10, 1 % off counts as 0.1 standard deviations of one feature. Bytes have the least, because
one layer cannot always meet all three, and operations and parameters say more about a network."""


@dataclass(frozen=True)
class Link:
    """A convolution of the chain: what it has besides what the one before gives it."""

    kernel: int
    stride: int
    width: int
    pooled: bool = False
    """Halved by a maximum over 2 x 2 before it."""


@dataclass(frozen=True)
class Chain:
    """Convolutions one after the other on a square picture."""

    channels: int
    side: int
    links: tuple[Link, ...]

    def layers(self) -> list[Convolution] | None:
        """Return its layers; None where the picture is used up."""
        found, inputs, side = [], self.channels, self.side
        for link in self.links:
            if link.pooled:
                side //= 2
            if side < 1:
                return None
            layer = Convolution(link.kernel, link.stride, inputs, link.width, side)
            found.append(layer)
            inputs, side = link.width, layer.side_after
        return found

    @property
    def width(self) -> int:
        """Channels that come out."""
        return self.links[-1].width


def ordered(layers: Sequence[SequenceLayer]) -> tuple[SequenceLayer, ...]:
    """Put layers into the order in which they run, and give tables of their own to tied ones that find none.

    Those that are called once come first, embeddings before all, because they are what the others read.
    """
    found: list[SequenceLayer] = []
    for layer in sorted(layers, key=lambda each: (each.calls, not isinstance(each, Embedding), each.place)):
        tied = isinstance(layer, Dense | Embedding) and layer.tied and owner(found, layer) is None
        found.append(replace(layer, tied=False) if tied else layer)  # type: ignore[call-arg]  # both have it
    return tuple(found)


def owner(layers: Sequence[SequenceLayer], tied: SequenceLayer) -> int | None:
    """Return the place of the first layer whose table is large enough for a tied one."""
    assert tied.weight is not None
    for place, each in enumerate(layers):
        if each is tied:
            return None
        if (
            each.weight
            and not getattr(each, "tied", False)
            and all(have >= need for have, need in zip(each.weight, tied.weight, strict=True))
        ):
            return place
    return None


@dataclass(frozen=True)
class Stage:
    """Layers with equal numbers of calls: once, or a loop. `rows` and `width` are those of the state."""

    calls: int
    rows: int
    width: int
    places: tuple[int, ...]


def stages(layers: Sequence[SequenceLayer]) -> list[Stage]:
    """Group ordered layers. A stage's state has the shape that most of its layers read."""
    found = []
    for calls, group in groupby(enumerate(layers), key=lambda each: each[1].calls):
        members = list(group)
        [(shape, _)] = Counter(layer.reads for _, layer in members).most_common(1)
        found.append(Stage(calls, *shape, tuple(place for place, _ in members)))
    return found


def inputs(chain: Chain | None, layers: Sequence[SequenceLayer]) -> tuple[Tensor, ...]:
    """Describe the inputs: a picture for convolutions, else features where no embedding comes first; all ids."""
    lookups = [each for each in layers if isinstance(each, Embedding)]
    found = [Tensor(IMAGE, "FP32", (chain.channels, chain.side, chain.side))] if chain else []
    if not chain and not any(each.calls == 1 for each in lookups):
        found.append(Tensor(FEATURES, "FP32", layers[0].reads))
    if lookups:
        found.append(Tensor(IDS, "INT32", (sum(each.lookups for each in lookups),)))
    return tuple(found)


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
    def of(cls, given: Sequence[Layers], kind: type[Layer], number: int = 0) -> Self:
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
        totals = {name: fmean(total(each.of(kind), name) for each in given) for name in TOTALS}
        return cls(number, quantiles, scales, totals)

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


def search_chain(given: Sequence[Layers], seed: int, *, steps: int = STEPS) -> Chain:
    """Find a chain of convolutions by simulated annealing from a seed; return the best that was seen.

    Kirkpatrick et al. 1983, "Optimization by Simulated Annealing". AI Matrix varies the same five of convolutions:
    input size, filter size, number of filters, stride of filters, number of layers (Wei et al. 2018; US patent 11579680
    B2, claim 1). Convolutions are a chain, because each hands its picture on. All other layers are found one by one,
    because each of them reads what it needs of a sequence (`network`).
    """
    target, rng = Target.of(given, Convolution), random.Random(seed)  # noqa: S311 - a search, no secret
    groups = [found for each in given if (found := each.of(Convolution))]
    pool = [layer for group in groups for layer in group]
    sides = sorted({group[0].side for group in groups})
    channels = sorted(group[0].inputs for group in groups)[len(groups) // 2]

    def judged(chain: Chain) -> float:
        layers = chain.layers()
        return math.inf if layers is None else misfit(layers, target)

    begun = _start(pool, target.layers, channels, sides, rng)
    return anneal(begun, judged, lambda chain: _changed(chain, pool, sides, rng), rng, steps)


def search_layers(
    given: Sequence[Layers],
    kind: type[SequenceLayer],
    seed: int,
    *,
    beside: Sequence[SequenceLayer] = (),
    steps: int = STEPS,
) -> list[SequenceLayer]:
    """Return the best layers of a kind other than convolutions; of one workload they are its own.

    Layers that are there already, `beside` them, may have the tables that tied ones use.
    """
    target, rng = Target.of(given, kind), random.Random(seed)  # noqa: S311 - a search, no secret
    groups = [found for each in given if (found := each.of(kind))]
    pool = [layer for group in groups for layer in group]
    weights = [1 / len(group) for group in groups for _ in group]
    # by what a layer moves, which every kind has
    moved = np.array([layer.bytes for layer in pool], np.float64)
    begun = tuple(pool[place] for place in places_of(moved, np.array(weights), target.layers))

    def judged(layers: tuple[SequenceLayer, ...]) -> float:
        # in their order, because a tied one that finds no table there gets its own
        return misfit([each for each in ordered((*beside, *layers)) if isinstance(each, kind)], target)

    def changed(layers: tuple[SequenceLayer, ...]) -> tuple[SequenceLayer, ...]:
        place = rng.randrange(len(layers))
        [other] = rng.choices(pool, weights)
        if rng.random() < 0.5:
            size = rng.choice(kind.SCALED)
            value = getattr(layers[place], size) * rng.uniform(NARROWER, WIDER)
            return _resized(layers, place, size, max(round(value), 1))
        return (*layers[:place], other, *layers[place + 1 :])

    return [*anneal(begun, judged, changed, rng, steps)]


def anneal(
    state: State, judge: Callable[[State], float], changed: Callable[[State], State], rng: random.Random, steps: int
) -> State:
    """Change a state step by step, and return the one that was judged best; less is better, and 0 ends the search."""
    now = judge(state)
    best, least = state, now
    for step in range(steps):
        if least == 0:
            break
        temperature = HOT * (COLD / HOT) ** (step / steps)
        other = changed(state)
        then = judge(other)
        if then < now or (math.isfinite(then) and rng.random() < math.exp((now - then) / temperature)):
            state, now = other, then
            if now < least:
                best, least = state, now
    return best


def _resized(layers: tuple[SequenceLayer, ...], place: int, size: str, value: int) -> tuple[SequenceLayer, ...]:
    """Give one layer another size. Those tied to its table follow; a tied one gets a table of its own."""
    before, changed = layers[place], {size: value}
    of_table = replace(before, **changed).weight != before.weight
    untied = {"tied": False} if of_table and _tied(before) else {}
    follows = [of_table and not untied and _tied(each) and each.weight == before.weight for each in layers]
    found = [replace(each, **changed) if follow else each for each, follow in zip(layers, follows, strict=True)]
    found[place] = replace(before, **changed, **untied)
    return tuple(found)


def _tied(layer: SequenceLayer) -> bool:
    return getattr(layer, "tied", False)


def _start(pool: Sequence[Convolution], number: int, channels: int, sides: Sequence[int], rng: random.Random) -> Chain:
    """Return a chain of drawn layers in the order of their sides, which is halved where theirs is."""
    drawn = sorted(rng.choices(pool, k=number), key=lambda layer: -layer.side)
    side = at = sides[len(sides) // 2]
    links = []
    for layer in drawn:
        pooled = at >= 2 * layer.side and at > 1
        at = at // 2 if pooled else at
        at = -(-at // layer.stride)
        links.append(Link(layer.kernel, layer.stride, layer.outputs, pooled))
    return Chain(channels, side, tuple(links))


def _changed(chain: Chain, pool: Sequence[Convolution], sides: Sequence[int], rng: random.Random) -> Chain:
    """Return a neighbour of a chain: one thing of one link is another, or two links have changed places."""
    links = list(chain.links)
    place = rng.randrange(len(links))
    link, model = links[place], rng.choice(pool)
    match rng.randrange(8):
        case 0:
            links[place] = replace(link, kernel=model.kernel)
        case 1:
            links[place] = replace(link, width=rng.choice((model.outputs, model.inputs)))
        case 2:
            links[place] = replace(link, width=_width(link.width * rng.uniform(NARROWER, WIDER), len(links)))
        case 3:
            links[place] = replace(link, pooled=not link.pooled)
        case 4 if halved := [number for number, each in enumerate(links) if each.pooled]:
            # a halving moves: one more or less would change all sides behind it
            before = rng.choice(halved)
            after = min(max(before + rng.randint(-MOVED, MOVED), 0), len(links) - 1)
            links[before], links[after] = (
                replace(links[before], pooled=links[after].pooled),
                replace(links[after], pooled=True),
            )
        case 5:
            links[place] = replace(link, stride=model.stride)
        case 6:
            other = rng.randrange(len(links))
            links[place], links[other] = links[other], links[place]
        case _:
            return replace(chain, side=rng.choice(sides))
    return replace(chain, links=tuple(links))


def _width(value: float, links: int) -> int:
    """Return a number of channels near a value: a multiple of `LANES`, as those of published networks are."""
    step = LANES if value >= LANES and links >= FEW else 1
    return max(round(value / step) * step, 1)
