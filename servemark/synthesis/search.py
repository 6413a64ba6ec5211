"""Finds a chain of convolutions that fits a target, by simulated annealing from a seed.

Kirkpatrick et al. 1983, "Optimization by Simulated Annealing". AI Matrix varies the same five: input size, filter size,
number of filters, stride of filters, number of layers (Wei et al. 2018; US patent 11579680 B2, claim 1).
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from servemark.synthesis.layers import Layer, Layers
from servemark.synthesis.match import Target, misfit

STEPS = 40_000
HOT, COLD = 0.5, 0.002
"""First and last temperature, in units of the misfit."""
SMALLEST_SIDE = 1
MOVED = 6
"""Most links by which a halving moves at once."""
CHANNELS = 3
"""Channels of a picture."""


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

    side: int
    links: tuple[Link, ...]

    def layers(self) -> list[Layer] | None:
        """Return its layers; None where the picture is used up."""
        found, inputs, side = [], CHANNELS, self.side
        for link in self.links:
            if link.pooled:
                side //= 2
            if side < max(SMALLEST_SIDE, 1):
                return None
            layer = Layer(link.kernel, link.stride, inputs, link.width, side)
            found.append(layer)
            inputs, side = link.width, layer.side_after
        return found

    @property
    def width(self) -> int:
        """Channels that come out."""
        return self.links[-1].width


def search(given: Sequence[Layers], target: Target, seed: int, *, steps: int = STEPS) -> Chain:
    """Return the best chain that was seen."""
    rng = random.Random(seed)  # noqa: S311 - a search, no secret
    pool = [layer for each in given for layer in each.convolutions]
    sides = sorted({each.convolutions[0].side for each in given})
    chain = start(pool, target, sides, rng)
    layers = chain.layers()
    assert layers is not None
    now = misfit(layers, target)
    best, least = chain, now
    for step in range(steps):
        temperature = HOT * (COLD / HOT) ** (step / steps)
        other = _changed(chain, pool, sides, rng)
        layers = other.layers()
        if layers is None:
            continue
        then = misfit(layers, target)
        if then < now or rng.random() < math.exp((now - then) / temperature):
            chain, now = other, then
            if now < least:
                best, least = chain, now
    return best


def start(pool: Sequence[Layer], target: Target, sides: Sequence[int], rng: random.Random) -> Chain:
    """Return a chain of drawn layers in the order of their sides, which is halved where theirs is."""
    drawn = sorted(rng.choices(pool, k=target.layers), key=lambda layer: -layer.side)
    side = at = sides[len(sides) // 2]
    links = []
    for layer in drawn:
        pooled = at >= 2 * layer.side and at > 1
        at = at // 2 if pooled else at
        stride = layer.stride if -(-at // layer.stride) >= 1 else 1
        at = -(-at // stride)
        links.append(Link(layer.kernel, stride, layer.outputs, pooled))
    return Chain(side, tuple(links))


def _changed(chain: Chain, pool: Sequence[Layer], sides: Sequence[int], rng: random.Random) -> Chain:
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
            links[place] = replace(link, width=max(round(link.width * rng.uniform(0.85, 1.18)), 1))
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
            return Chain(rng.choice(sides), chain.links)
    return Chain(chain.side, tuple(links))
