"""The workload of a synthetic network: convolutions in front, then layers of a sequence; and the file that keeps it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from servemark.models.blocks.weights import calibrate, he, seeded
from servemark.models.synnet import settle
from servemark.models.synthesis.images import image
from servemark.models.synthesis.popularity import Popularity
from servemark.synthesis.layers import Embedding, SequenceLayer
from servemark.synthesis.modules import network
from servemark.synthesis.plan import FEATURES, IDS, IMAGE, Chain, Link, inputs, stages
from servemark.workload import Agreement, Sample, Slo, Tensor, Variant, Workload, define
from servemark.workload.spec import OWN_SUITES

if TYPE_CHECKING:
    from torch import nn

CITATION = "Wei et al. 2018, AI Matrix - Synthetic Benchmarks for DNN (arXiv:1812.00886)"
SLO_MS = 100.0
MAX_BATCH = 64
CALIBRATION_SAMPLES = 8
SPREAD_RTOL = 1e-2
"""Many convolutions leave little of the difference between pictures, so rounding is enlarged."""
Links = Sequence[tuple[int, int, int, bool]]
FILE = '''"""{name}: a synthetic network whose layers match those of {made_of}.

`servemark synthesise {command}` made it. Its weights are seeded random ones. Each link is a convolution with BatchNorm
and ReLU: side of the filter, stride, channels, and whether a maximum over 2 x 2 comes before it. The layers come behind
them. Each reads what it needs of the rows of a sequence, and adds to them what it computes; those with equal numbers of
calls are a loop.
"""

from servemark.synthesis.layers import Attention, Dense, Embedding, Norm, Recurrent  # noqa: F401
from servemark.synthesis.network import synthetic

LINKS = (
{links}
)
LAYERS = (
{layers}
)
WORKLOAD = synthetic({name!r}, picture={picture}, links=LINKS, layers=LAYERS, made_of={made_of!r})
'''


def written(
    name: str, chain: Chain | None, layers: Sequence[SequenceLayer], made_of: Sequence[str], command: str
) -> str:
    """Return the text of the workload file."""
    links = [(each.kernel, each.stride, each.width, each.pooled) for each in chain.links] if chain else []
    return FILE.format(
        name=name,
        made_of=", ".join(made_of),
        command=command,
        picture=(chain.channels, chain.side) if chain else None,
        links="\n".join(f"    {each}," for each in links),
        layers="\n".join(f"    {each!r}," for each in layers),
    )


def synthetic(
    name: str,
    *,
    picture: tuple[int, int] | None,
    links: Links,
    layers: Sequence[SequenceLayer],
    made_of: str,
) -> Workload:
    """Describe a synthetic network as a workload. Its answer is the mean of the last rows: `answer` [width].

    Inputs are `image` [channels, side, side] where it has convolutions, and `ids`, those of all its embeddings. With
    neither it is `features` [rows, width].
    """
    chain = Chain(*picture, tuple(Link(*each) for each in links)) if picture else None
    return define(
        name,
        f"Synthetic network of {made_of}",
        full=Variant((chain, tuple(layers)), parameters=_parameters(chain, layers), flops=_flops(chain, layers)),
        task="synthetic",
        suites=OWN_SUITES,
        inputs=lambda sizes: inputs(*sizes),
        outputs=lambda sizes: (Tensor("answer", "FP32", (_width(*sizes),)),),
        max_batch=MAX_BATCH,
        slo=Slo(99, SLO_MS),
        citation=CITATION,
        origin=f"It was generated from the layers of {made_of}, and nothing was trained.",
        build=lambda own, sizes: build(own, *sizes),
        samples=lambda sizes, rng: samples(*sizes, rng),
        agreement=Agreement(spread_rtol=SPREAD_RTOL),
    )


def build(name: str, chain: Chain | None, layers: Sequence[SequenceLayer]) -> "nn.Module":
    """Seed the network, and calibrate the statistics of its convolutions on a few samples."""
    import torch

    drawn = samples(chain, layers, np.random.default_rng(0))
    batch = [next(drawn) for _ in range(CALIBRATION_SAMPLES)]
    with seeded(name), torch.no_grad():
        model = network(chain, layers)
        if chain:
            he(model.get_submodule("convolutions"))
            settle(model.get_submodule("convolutions"))
            pictures = torch.from_numpy(np.stack([sample[IMAGE] for sample in batch]))
            calibrate(model.get_submodule("convolutions"), pictures)
        model.eval()
        tensors = [torch.from_numpy(np.stack([s[each.name] for s in batch])) for each in inputs(chain, layers)]
        model.get_buffer("scale").div_(model(*tensors).std())  # answers of size 1, which a tolerance is for
    return model


def samples(chain: Chain | None, layers: Sequence[SequenceLayer], rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures with the statistics of natural images, and ids with those of English words."""
    lookups = [each for each in layers if isinstance(each, Embedding)]
    words = [Popularity.zipf(each.rows, s=1.0, q=2.7) for each in lookups]
    while True:
        sample = {}
        for tensor in inputs(chain, layers):
            if tensor.name == IMAGE:
                channels, side, _ = tensor.shape
                sample[IMAGE] = _picture(rng, channels, side)
            elif tensor.name == IDS:
                drawn = [of.draw(rng, each.lookups) for of, each in zip(words, lookups, strict=True)]
                sample[IDS] = np.concatenate(drawn).astype(np.int32)
            else:
                sample[FEATURES] = rng.standard_normal(tensor.shape, np.float32)
        yield sample


def _picture(rng: np.random.Generator, channels: int, side: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    coloured = image(rng, side, side)
    return np.ascontiguousarray(np.resize(coloured, (channels, side, side)))


def _width(chain: Chain | None, layers: Sequence[SequenceLayer]) -> int:
    if layers:
        return stages(layers)[-1].width
    assert chain is not None
    return chain.width


def _parameters(chain: Chain | None, layers: Sequence[SequenceLayer]) -> int:
    """Count weights, biases, and scales and shifts of norms."""
    convolutions = (chain.layers() or []) if chain else []
    behind = 2 * chain.width if chain else 0  # of the norm behind the last one
    own = sum(layer.parameters + layer.biases for layer in layers)
    return own + behind + sum(layer.parameters + 2 * layer.outputs for layer in convolutions)


def _flops(chain: Chain | None, layers: Sequence[SequenceLayer]) -> int:
    convolutions = (chain.layers() or []) if chain else []
    return sum(layer.flops for layer in [*convolutions, *layers])
