"""A synthetic network in PyTorch, convolutions in front, then layers of a sequence; its workload and file."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from servemark.models.blocks.sequences import repeat_while
from servemark.models.blocks.weights import calibrate, he, seeded
from servemark.models.synnet import settle
from servemark.models.synthesis.images import image
from servemark.models.synthesis.popularity import Popularity
from servemark.synthesis.layers import Attention, Dense, Embedding, Norm, Recurrent, SequenceLayer
from servemark.synthesis.plan import FEATURES, IDS, IMAGE, Chain, Link, Stage, inputs, owner, stages
from servemark.workload import Agreement, Sample, Slo, Tensor, Variant, Workload, define
from servemark.workload.spec import OWN_SUITES

if TYPE_CHECKING:
    import torch
    from torch import nn

FEATURE_SPREAD = 0.1
"""Of what convolutions hand on: many of them leave little of the difference between pictures, and to enlarge it
enlarges rounding."""
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


def fitted(x: "torch.Tensor", rows: int, width: int) -> "torch.Tensor":
    """Repeat and cut rows and columns: [B, R, W] -> [B, rows, width]."""
    times = [-(-rows // x.shape[1]), -(-width // x.shape[2])]
    if times != [1, 1]:
        x = x.repeat(1, *times)
    return x if tuple(x.shape[1:]) == (rows, width) else x[:, :rows, :width]


def folded(x: "torch.Tensor", rows: int, width: int) -> "torch.Tensor":
    """Lay rows and columns beyond a shape over those within, and take the mean: [B, R, W] -> [B, <= rows, <= width]."""
    from torch.nn.functional import pad

    for axis, size in ((1, rows), (2, width)):
        parts = -(-x.shape[axis] // size)
        if parts > 1:
            lacking = parts * size - x.shape[axis]
            x = pad(x, (0, 0, 0, lacking) if axis == 1 else (0, lacking)) if lacking else x
            x = x.reshape(*x.shape[:axis], parts, size, *x.shape[axis + 1 :]).mean(axis)
    return x


def network(chain: Chain | None, layers: Sequence[SequenceLayer]) -> "nn.Module":
    """Define the network: its inputs in order -> answer [B, width].

    All layers but convolutions work on one state, the rows of a sequence. A layer reads the rows and columns that it
    needs, repeated where the state has fewer, and its answer is added to the state, folded where it is larger. So
    layers of any sizes fit together, every answer counts, and what differs between requests is still there after
    hundreds of layers.
    """
    import torch
    from torch import nn

    owners = [
        owner(layers, each) if isinstance(each, Dense | Embedding) and each.tied else place
        for place, each in enumerate(layers)
    ]
    branch = 1 / math.sqrt(max(sum(each.calls for each in layers), 1))
    ends = [0]
    for each in layers:
        ends.append(ends[-1] + (each.lookups if isinstance(each, Embedding) else 0))
    takes_ids = ends[-1] > 0
    takes_features = FEATURES in {each.name for each in inputs(chain, layers)}

    class Synthetic(nn.Module):
        scale: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.convolutions = convolutions(chain) if chain else nn.Identity()
            self.layers = nn.ModuleList(module(each, branch) for each in layers)
            self.register_buffer("scale", torch.ones(()))

        def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
            state: torch.Tensor | None = None
            if chain:
                state = self.convolutions(first).unsqueeze(1)
            elif takes_features:
                state = first
            ids = (first if state is None else second) if takes_ids else None
            for stage in stages(layers):
                state = None if state is None else fitted(state, stage.rows, stage.width)
                state = self.run(stage, state, ids)
            assert state is not None
            return state.mean(dim=1) * self.scale

        def run(self, stage: Stage, state: torch.Tensor | None, ids: torch.Tensor | None) -> torch.Tensor | None:
            if stage.calls == 1:
                for place in stage.places:
                    state = self.step(place, stage, state, ids)
                return state
            assert state is not None

            def unfinished(count: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
                return count < stage.calls

            def once(count: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
                for place in stage.places:
                    state = self.step(place, stage, state, ids)
                return count + 1, state

            count = torch.zeros((), dtype=torch.long, device=state.device)
            # an export wants what is carried to have one layout, and a part of a larger state has another
            return repeat_while(unfinished, once, (count, state.contiguous()))[1]

        def step(self, place: int, stage: Stage, state: Any, ids: Any) -> torch.Tensor:
            """Let one layer read the state [B, rows, width] and write to it."""
            layer = layers[place]
            if isinstance(layer, Embedding):
                found = nn.functional.embedding(ids[:, ends[place] : ends[place + 1]].long(), self.table(place))
            elif isinstance(layer, Dense):
                found = self.layers[place](fitted(state, *layer.reads), self.table(place))
            else:
                found = self.layers[place](state)
            written = fitted(folded(found, stage.rows, stage.width), stage.rows, stage.width)
            return written if state is None else state + written

        def table(self, place: int) -> torch.Tensor:
            """The weights of a layer, which may be a part of another one's."""
            of = owners[place]
            assert of is not None
            weight = self.layers[of].get_parameter("weight")
            shape = layers[place].weight
            assert shape is not None
            return weight if tuple(weight.shape) == shape else weight[: shape[0], : shape[1]]

    return Synthetic()


def convolutions(chain: Chain) -> "nn.Module":
    """Define the chain, and a mean over the picture with the same spread in each channel: image -> [B, channels]."""
    from torch import nn

    layers = chain.layers()
    assert layers is not None
    found: list[nn.Module] = []
    for link, layer in zip(chain.links, layers, strict=True):
        if link.pooled:
            found.append(nn.MaxPool2d(2))
        # TensorFlow's SAME: what is odd is padded behind.
        padding = max((layer.side_after - 1) * layer.stride + layer.kernel - layer.side, 0)
        before = padding // 2
        found += [
            nn.ZeroPad2d((before, padding - before, before, padding - before)),
            nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, bias=False),
            nn.BatchNorm2d(layer.outputs, eps=1e-4),
            nn.ReLU(inplace=True),
        ]
    norm = nn.BatchNorm1d(chain.width, eps=1e-4)
    nn.init.constant_(norm.weight, FEATURE_SPREAD)
    return nn.Sequential(*found, nn.AdaptiveAvgPool2d(1), nn.Flatten(), norm)


def module(layer: SequenceLayer, branch: float) -> "nn.Module":
    """Define a layer with seeded weights; `branch` is the size of what it adds to a state of size 1."""
    import torch
    from torch import nn

    class Table(nn.Module):
        """Weights of an embedding."""

        def __init__(self, rows: int, width: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(rows, width) / width**0.5)

    class Linear(nn.Module):
        """A fully connected layer; a tied one has its bias alone."""

        def __init__(self, layer: Dense) -> None:
            super().__init__()
            if not layer.tied:
                self.weight = nn.Parameter(torch.randn(layer.outputs, layer.inputs) * branch / layer.inputs**0.5)
            self.bias = nn.Parameter(torch.zeros(layer.outputs))
            functions = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "gelu": nn.functional.gelu}
            self.activation = functions.get(layer.activation)

        def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            answer = nn.functional.linear(x, table, self.bias)
            return self.activation(answer) if self.activation else answer

    class Heads(nn.Module):
        """An attention of the state to itself."""

        def forward(self, state: torch.Tensor) -> torch.Tensor:
            of = layer
            assert isinstance(of, Attention)
            queries, keys = (
                fitted(state, count, of.heads * of.width).reshape(-1, count, of.heads, of.width).transpose(1, 2)
                for count in (of.queries, of.keys)
            )
            weights = torch.softmax(queries @ keys.transpose(2, 3) / of.width**0.5, dim=3)
            looked: torch.Tensor = (weights @ (keys * branch)).transpose(1, 2).flatten(2)
            return looked

    class Reading(nn.Module):
        """A module of PyTorch's that reads its part of the state."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, state: torch.Tensor) -> torch.Tensor:
            found = self.inner(fitted(state, *layer.reads))
            answer: torch.Tensor = found[0] if isinstance(found, tuple) else found
            return answer

    match layer:
        case Embedding():
            return nn.Module() if layer.tied else Table(layer.rows, layer.width)
        case Dense():
            return Linear(layer)
        case Attention():
            return Heads()
        case Recurrent():
            cells = {"lstm": nn.LSTM, "gru": nn.GRU, "vanilla": nn.RNN}
            return Reading(cells[layer.cell](layer.inputs, layer.hidden, batch_first=True))
        case Norm():
            norm = nn.LayerNorm(layer.width)
            nn.init.constant_(norm.weight, branch)
            return Reading(norm)
    raise AssertionError(f"no module for {layer}")


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
                sample[IMAGE] = np.ascontiguousarray(np.resize(image(rng, side, side), (channels, side, side)))
            elif tensor.name == IDS:
                drawn = [of.draw(rng, each.lookups) for of, each in zip(words, lookups, strict=True)]
                sample[IDS] = np.concatenate(drawn).astype(np.int32)
            else:
                sample[FEATURES] = rng.standard_normal(tensor.shape, np.float32)
        yield sample


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
