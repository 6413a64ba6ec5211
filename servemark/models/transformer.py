"""Transformer (base): English-to-German translation (AIBench DC-AI-C3).

Vaswani et al. 2017, "Attention Is All You Need" (NIPS): norms after the residuals, no norm after the last layer, one
embedding shared by source, target and output (37,000 subwords, section 5.1). AIBench's report calls it recurrent and
cites this paper.

Decoded greedily with a key/value cache. The paper's quality figures are of beam 4 and penalty 0.6: `transformer_beam4`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from servemark.datasets import wmt
from servemark.models.blocks.sequences import LOGIT_DEVIATION, Search, TensorTuple, search
from servemark.models.blocks.weights import seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Variant, define

if TYPE_CHECKING:
    import torch

START, END = 1, 2
SPECIAL = 3
"""<unk>, <s>, </s>"""
SCORED = "newstest2014"
"""The paper's test set."""


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, width, heads, inner width, layers on each side, longest source and translation, and the search."""

    vocabulary: int = 37_000
    width: int = 512
    heads: int = 8
    inner: int = 2048
    layers: int = 6
    length: int = 64
    beams: int = 1
    length_penalty: float = 0.0


def network(sizes: Sizes) -> Module:
    """Define the Transformer: (src_ids [B, S], src_len [B, 1] >= 1) -> ids [B, T], lengths [B, 1], score [B, 1]."""
    import torch
    from torch import nn

    width, heads, head = sizes.width, sizes.heads, sizes.width // sizes.heads
    rules = Search(sizes.length, START, END, sizes.beams, sizes.length_penalty)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

        def split(self, rows: torch.Tensor, count: int) -> torch.Tensor:
            return rows.reshape(-1, count, heads, head).transpose(1, 2)  # [B, heads, count, head]

        def forward(
            self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, masked: torch.Tensor
        ) -> torch.Tensor:
            """Attend with [B, N, W] to keys and values [B, heads, S, head] that are not masked [B, 1, 1, S]."""
            query = self.split(self.query(queries), queries.shape[1]) / head**0.5
            energy = torch.matmul(query, keys.transpose(2, 3))  # [B, heads, N, S]
            weights = torch.softmax(energy.masked_fill(masked, torch.finfo(energy.dtype).min), dim=3)
            looked: torch.Tensor = self.output(torch.matmul(weights, values).transpose(1, 2).flatten(2))
            return looked

    class Layer(nn.Module):
        attention: Any  # nn.ModuleList, whose type knows nothing of its elements
        norm: Any

        def __init__(self, attentions: int) -> None:
            super().__init__()
            self.attention = nn.ModuleList(Attention() for _ in range(attentions))
            self.inner = nn.Sequential(nn.Linear(width, sizes.inner), nn.ReLU(), nn.Linear(sizes.inner, width))
            self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(attentions + 1))

    class Transformer(nn.Module):
        positions: torch.Tensor
        encoder: Any
        decoder: Any

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, width)
            self.encoder = nn.ModuleList(Layer(1) for _ in range(sizes.layers))
            self.decoder = nn.ModuleList(Layer(2) for _ in range(sizes.layers))
            self.register_buffer("positions", _sinusoids(sizes), persistent=False)

        def forward(self, src_ids: torch.Tensor, src_len: torch.Tensor) -> TensorTuple:
            memory, state = self.encode(src_ids.long(), src_len.long())
            return search(partial(self.step, memory), state, rules)

        def embed(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            words: torch.Tensor = self.embedding(ids)
            return words * math.sqrt(width) + positions

        def encode(self, ids: torch.Tensor, length: torch.Tensor) -> tuple[TensorTuple, TensorTuple]:
            """Return the memory (padding, then each layer's keys and values) and empty caches of the decoder's."""
            count = ids.shape[1]
            padding = text.beyond(ids, length)[:, None, None]
            x = self.embed(ids, self.positions[:count])
            for layer in self.encoder:
                (attention,) = layer.attention
                keys, values = (attention.split(part(x), count) for part in (attention.key, attention.value))
                x = layer.norm[0](x + attention(x, keys, values, padding))
                x = layer.norm[1](x + layer.inner(x))
            memory, state = [padding], []
            for layer in self.decoder:
                attention = layer.attention[1]
                memory += [attention.split(part(x), count) for part in (attention.key, attention.value)]
                state += [x.new_zeros(ids.shape[0], heads, sizes.length, head) for _ in range(2)]
            return tuple(memory), tuple(state)

        def step(
            self, memory: TensorTuple, position: torch.Tensor, word: torch.Tensor, state: TensorTuple
        ) -> tuple[torch.Tensor, TensorTuple]:
            """Read the last word [R] at its position [], attend, and weigh the next word [R, V]."""
            padding, *sources = memory
            places = torch.arange(sizes.length, device=word.device)
            here, later = (places == position)[:, None], places > position
            x = self.embed(word, self.positions.index_select(0, position.reshape(1))).unsqueeze(1)  # [R, 1, W]
            after = []
            for i, layer in enumerate(self.decoder):
                own, cross = layer.attention
                # a new row of the cache by selection: scattering to a computed place suits fewer engines
                keys = torch.where(here, own.split(own.key(x), 1), state[2 * i])
                values = torch.where(here, own.split(own.value(x), 1), state[2 * i + 1])
                after += [keys, values]
                x = layer.norm[0](x + own(x, keys, values, later))
                beams = x.reshape(padding.shape[0], -1, width)  # [B, beams, W]: they share their source
                looked = cross(beams, sources[2 * i], sources[2 * i + 1], padding)
                x = layer.norm[1](x + looked.reshape(x.shape))
                x = layer.norm[2](x + layer.inner(x))
            return nn.functional.linear(x.squeeze(1), self.embedding.weight), tuple(after)

    return Transformer()


def _sinusoids(sizes: Sizes) -> "torch.Tensor":
    """Encode positions [length, width] (section 3.5)."""
    import torch

    position = torch.arange(sizes.length)[:, None]
    angle = position / 10_000 ** (torch.arange(0, sizes.width, 2) / sizes.width)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)


FOCUS = 2.0
"""Deviation of queries and keys: an attention that looks everywhere alike makes all positions alike."""
ATTENTION = 0.5
"""Size of what an attention adds to an input of size 1."""
FADING = 8.0
"""By this the inner layers weaken the last word on its way to the output, whose embedding is the same."""
STEEPNESS = 150.0
"""Logits of the end for each unit of the count."""
COUNT_PERIOD = 0.64
"""Of the sine that counts, as a share of the longest translation: it rises over all positions."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that translations follow the source, do not repeat one word, and are about as long."""
    import torch
    from torch import nn

    with seeded(name), torch.no_grad():
        model = network(sizes)
        for key, weight in model.named_parameters():
            *_, kind, part = key.split(".")
            if part == "bias":
                nn.init.zeros_(weight)
            elif weight.dim() == 2:
                deviation = FOCUS if kind in {"query", "key"} else 1.0
                nn.init.normal_(weight, std=deviation / weight.shape[1] ** 0.5)
        nn.init.normal_(model.get_parameter("embedding.weight"), std=sizes.width**-0.5)
        for key, weight in model.named_parameters():
            if key.endswith("output.weight"):
                weight.mul_(ATTENTION)
            elif key.endswith("inner.2.weight"):
                # a ReLU of N(0, 1) has mean 0.4 and deviation 0.58; a mean would make all positions alike
                weight.mul_(_inner_branch(sizes) / 0.58)
                model.get_parameter(key.replace("weight", "bias")).sub_(weight.sum(dim=1) / math.sqrt(2 * math.pi))
        count_words(model, sizes)
        model.get_parameter(f"decoder.{sizes.layers - 1}.norm.2.weight").mul_(LOGIT_DEVIATION)
    return model.eval()


def _inner_branch(sizes: Sizes) -> float:
    """Size of what inner layers add to an input of size 1: each norm then divides by the root of 1 + its square."""
    return math.sqrt(FADING ** (2 / sizes.layers) - 1)


def count_words(model: Module, sizes: Sizes) -> None:
    """Keep one unit for the position, and end when it has come as far as the source is long.

    That unit holds a slow sine of the position, which no branch changes. In the last layer the first head looks at all
    of the source alike, so that it finds half its length there.
    """
    import torch

    unit = 2 * round(math.log(COUNT_PERIOD * sizes.length) / math.log(10_000) * sizes.width / 2)
    embedding, positions = model.get_parameter("embedding.weight"), model.get_buffer("positions")
    embedding.sub_(embedding.mean(dim=1, keepdim=True))  # what norms subtract, they subtract from the count too
    embedding[:, unit] = 0
    embedding[START] = 0  # nothing but its position, or the luck of one row would end many translations at once
    for key, weight in model.named_parameters():
        if key.endswith(("output.weight", "inner.2.weight", "output.bias", "inner.2.bias")):
            weight.sub_(weight.mean(dim=0))
            weight[unit] = 0
    for side, attentions in (("encoder", 1), ("decoder", 2)):
        for layer in range(sizes.layers):
            branches = [ATTENTION] * attentions + [_inner_branch(sizes)]
            for i, size in enumerate(branches):  # a norm divides by the size of the sum
                model.get_parameter(f"{side}.{layer}.norm.{i}.weight")[unit] = math.sqrt(1 + size**2)
        # and takes off the mean, which positions have and nothing behind them has
        model.get_parameter(f"{side}.0.norm.0.bias")[unit] = positions.mean() / (1 + positions.var()).sqrt()
    last, head = f"decoder.{sizes.layers - 1}", sizes.width // sizes.heads
    model.get_parameter(f"{last}.attention.1.query.weight")[:head] = 0
    model.get_parameter(f"{last}.attention.1.value.weight")[0] = torch.eye(sizes.width)[unit]
    model.get_parameter(f"{last}.attention.1.output.weight")[unit, 0] = -2
    embedding[END] /= 4  # the count decides
    embedding[END, unit] = STEEPNESS / LOGIT_DEVIATION


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw sentences of subwords: 27 on average, with English word frequencies."""
    words = Popularity.zipf(sizes.vocabulary - SPECIAL, first_id=SPECIAL, **text.ENGLISH)
    lengths = Lengths(27 / 64 * sizes.length, 0.5, min(3, sizes.length // 4), sizes.length)
    return text.sentences(rng, words, lengths, sizes.length)


def read(path: Path) -> Iterator[Sample]:
    """Read the English side of WMT's newstest."""
    sizes = Sizes()
    return (text.request(ids, sizes.length) for ids in wmt.read(path, "en", sizes.vocabulary))


def labelled(path: Path) -> LabelledSet:
    """The sentences of newstest2014 with the ids of their German. Raises InputDataError naming file and line.

    The server continues its own words, so that its accuracy is below the one of training, to which the reference's
    words are given.
    """
    sizes = Sizes()
    data = wmt.translated(path, "en", "de", sizes.vocabulary, SCORED)

    def example(source: list[int], encoded: list[int]) -> Example:
        return Example((text.request(source, sizes.length),), encoded[: sizes.length])

    pairs = list(zip(data.requests, data.encoded, strict=True))
    return LabelledSet.of(pairs, example, lambda outputs, _label: text.answered(outputs))


TINY = Sizes(vocabulary=200, width=32, heads=2, inner=64, layers=2, length=12)


translator = partial(
    define,
    task="text-to-text translation",
    inputs=lambda sizes: text.inputs(sizes.length),
    outputs=lambda sizes: text.outputs(sizes.length),
    max_batch=32,
    slo=Slo(99, 250),
    quality=Quality("token accuracy", 0.55, f"{SCORED}, English to German, the reference's words as input"),
    citation="Vaswani et al. 2017, Attention Is All You Need, NIPS (arXiv:1706.03762)",
    locustfile="translation",
    build=lambda variant, sizes: build("transformer_tiny" if variant.endswith("_tiny") else "transformer", sizes),
    samples=samples,
    dataset=wmt.KEY,
    read=read,
    labelled=labelled,
)
"""Describes a translator with the weights of `transformer` or of its tiny variant, and a search of its own."""

WORKLOAD = translator(
    "transformer",
    "Transformer (base)",
    suites=("AIBench DC-AI-C3",),
    origin="The paper's base model, decoded greedily. AIBench's code decodes with beam 4 (`transformer_beam4`) or 5; "
    "the 55 % and its epochs are of Multi30k, a small set with some 3,000 words.",
    # of 64 words in and 27 out, of 27 in and out and of 64
    full=Variant(
        Sizes(),
        parameters=63_082_496,
        flops=5_123_432_448,
        flops_without_padding=3_423_707_136,
        flops_longest=8_212_971_520,
    ),
    # of 12 words in and 5 out, of 5 in and out and of 12
    tiny=Variant(TINY, parameters=49_152, flops=827_904, flops_without_padding=490_240, flops_longest=1_247_232),
)
