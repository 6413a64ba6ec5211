"""Parts of a synthetic network in their order: a chain of convolutions, what runs once or in a loop, whose weights."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from servemark.synthesis.layers import Convolution, Dense, Embedding, SequenceLayer
from servemark.workload import Tensor

IMAGE, FEATURES, IDS = "image", "features", "ids"
"""Names of the inputs."""


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
