"""The network of a chain, and the workload file that keeps it."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from servemark.models.blocks.classification import classification, samples, seeded_classifier
from servemark.models.synnet import SPREAD, Sizes, settle
from servemark.synthesis.layers import Layer
from servemark.synthesis.match import Target
from servemark.synthesis.search import CHANNELS, Chain, Link
from servemark.workload import Variant, Workload
from servemark.workload.spec import OWN_SUITES

if TYPE_CHECKING:
    from torch import nn

CLASSES = 1000
CITATION = "Wei et al. 2018, AI Matrix - Synthetic Benchmarks for DNN (arXiv:1812.00886)"
SLO_MS = 100.0
FILE = '''"""{name}: a synthetic network whose layers match those of {made_of}.

`servemark synthesise {command}` made it. Its weights are seeded random ones. Each link of the chain is a convolution
with BatchNorm and ReLU: side of the filter, stride, channels, and whether a maximum over 2 x 2 comes before it.
"""

from servemark.synthesis.network import synthetic

LINKS = (
{links}
)
WORKLOAD = synthetic({name!r}, side={side}, links=LINKS, hidden={hidden}, made_of={made_of!r})
'''


def hidden_sizes(width: int, target: Target) -> tuple[int, ...]:
    """Return the sizes between fully connected layers: as many layers, and parameters, as the target has.

    They are equal: h with width h + (n - 2) h^2 + h classes = weights. The number of layers is rounded up, because a
    single layer leaves no choice.
    """
    number = target.connected
    if number < 2:
        return ()
    square, linear = number - 2, width + CLASSES
    wanted = target.connected_parameters
    size = wanted / linear
    if square:
        size = (math.sqrt(linear**2 + 4 * square * wanted) - linear) / (2 * square)
    return (max(round(size), 1),) * (number - 1)


def connected(width: int, hidden: Sequence[int]) -> list[tuple[int, int]]:
    """Return inputs and outputs of the fully connected layers."""
    sizes = [width, *hidden, CLASSES]
    return list(pairwise(sizes))


def written(name: str, chain: Chain, hidden: Sequence[int], made_of: Sequence[str], command: str) -> str:
    """Return the text of the workload file."""
    links = "\n".join(f"    ({each.kernel}, {each.stride}, {each.width}, {each.pooled})," for each in chain.links)
    return FILE.format(
        name=name, made_of=", ".join(made_of), command=command, links=links, side=chain.side, hidden=tuple(hidden)
    )


def synthetic(
    name: str, *, side: int, links: Sequence[tuple[int, int, int, bool]], hidden: Sequence[int], made_of: str
) -> Workload:
    """Describe a synthetic network as a workload: `image` [3, side, side] -> `logits` [1000]."""
    chain = Chain(side, tuple(Link(*each) for each in links))
    layers = chain.layers()
    assert layers is not None
    dense = connected(chain.width, hidden)
    parameters = sum(layer.parameters + 2 * layer.outputs for layer in layers) + sum(a * b + b for a, b in dense)
    flops = sum(layer.flops for layer in layers) + sum((2 * a + 1) * b for a, b in dense)
    return classification(
        name,
        f"Synthetic network of {made_of}",
        CITATION,
        full=Variant(Sizes(classes=CLASSES, side=side), parameters=parameters, flops=flops),
        origin=f"It was generated from the layers of {made_of}, and nothing was trained.",
        slo_ms=SLO_MS,
        suites=OWN_SUITES,
        build=lambda own, sizes: seeded_classifier(
            own, partial(network, chain, layers, dense), partial(samples, sizes.side), weights=settle, spread=SPREAD
        ),
    )


def network(chain: Chain, layers: Sequence[Layer], dense: Sequence[tuple[int, int]]) -> "nn.Module":
    """Define the chain, a mean over the picture, and the fully connected layers."""
    from torch import nn

    modules: list[nn.Module] = []
    for link, layer in zip(chain.links, layers, strict=True):
        if link.pooled:
            modules.append(nn.MaxPool2d(2))
        # TensorFlow's SAME: what is odd is padded behind.
        padding = max((layer.side_after - 1) * layer.stride + layer.kernel - layer.side, 0)
        before = padding // 2
        modules += [
            nn.ZeroPad2d((before, padding - before, before, padding - before)),
            nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, bias=False),
            nn.BatchNorm2d(layer.outputs, eps=1e-4),
            nn.ReLU(inplace=True),
        ]
    modules += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    for number, (inputs, outputs) in enumerate(dense):
        modules += [nn.ReLU(inplace=True)] if number else []
        modules.append(nn.Linear(inputs, outputs))
    assert layers[0].inputs == CHANNELS
    return nn.Sequential(*modules)
