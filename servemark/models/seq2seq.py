"""Seq2seq: short French sentences become English ones (HPC workload analysis).

Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate" (ICLR). The small
form is that of PyTorch's tutorial on Tatoeba's sentence pairs. A GRU reads the sentence, and one of the same 256 units
writes the translation. Its attention weighs the ten places of the sentence from the last word and the state alone.
Places beyond the sentence hold zeros, and take their share of the weights. Sentences have up to nine words and their
end. Decoded greedily.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from servemark.models.blocks.sequences import LOGIT_DEVIATION, Search, TensorTuple, gru, search
from servemark.models.blocks.weights import glorot, seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Module, Quality, Sample, Slo, Variant, define

START, END = 0, 1
SPECIAL = 2
"""<s>, which pads too, and </s>"""


@dataclass(frozen=True)
class Sizes:
    """Words of French and of English, width of a word vector and of both GRUs, longest sentence with its end."""

    source: int = 4_345
    target: int = 2_803
    width: int = 256
    length: int = 10


def network(sizes: Sizes) -> Module:
    """Define it: (src_ids [B, S], src_len [B, 1] >= 1) -> ids [B, S], lengths [B, 1], score [B, 1]."""
    import torch
    from torch import nn

    width = sizes.width
    rules = Search(sizes.length, START, END)

    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source_embedding = nn.Embedding(sizes.source, width)
            self.target_embedding = nn.Embedding(sizes.target, width)
            self.encoder = nn.ModuleList([nn.GRUCell(width, width)])
            self.places = nn.Linear(2 * width, sizes.length)
            self.combine = nn.Linear(2 * width, width)
            self.cell = nn.GRUCell(width, width)
            self.output = nn.Linear(width, sizes.target)

        def forward(self, src_ids: torch.Tensor, src_len: torch.Tensor) -> TensorTuple:
            memory, state = self.encode(src_ids.long(), src_len.long())
            return search(partial(self.step, memory), state, rules)

        def encode(self, ids: torch.Tensor, length: torch.Tensor) -> tuple[TensorTuple, TensorTuple]:
            """Return the states of all places [B, length, W], 0 beyond the sentence, and the last one."""
            padding = text.beyond(ids, length)
            states, final = gru(self.encoder, self.source_embedding(ids), padding)
            states = states.masked_fill(padding.unsqueeze(2), 0)
            return (nn.functional.pad(states, (0, 0, 0, sizes.length - ids.shape[1])),), (final[0],)

        def step(
            self, memory: TensorTuple, position: torch.Tensor, word: torch.Tensor, state: TensorTuple
        ) -> tuple[torch.Tensor, TensorTuple]:
            """Read the last word [R], look at the sentence, and weigh the next word [R, V]."""
            del position
            (states,), (hidden,) = memory, state
            read = self.target_embedding(word)
            weights = torch.softmax(self.places(torch.cat([read, hidden], dim=1)), dim=1)
            looked = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
            hidden = self.cell(torch.relu(self.combine(torch.cat([read, looked], dim=1))), hidden)
            return self.output(hidden), (hidden,)

    return Seq2Seq()


GAIN = 3.0
"""Of the recurrent weights: below 1 the state forgets the sentence, far above it saturates."""
WORDS = 0.6
"""Mean number of words of a sentence and of its translation, as a share of the longest."""
STEEPNESS = 120.0
"""Logits of the end for each unit of the counter."""
THRESHOLD = 0.61
"""Of the counter, at which the end is as likely as the likeliest word is expected to be."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that translations follow the sentence, do not repeat one word, and end."""
    import torch
    from torch import nn

    with seeded(name), torch.no_grad():
        model = network(sizes)
        glorot(model, GAIN)
        nn.init.normal_(model.get_parameter("output.weight"), std=LOGIT_DEVIATION / sizes.width**0.5)
        count_words(model, sizes)
    return model.eval()


def count_words(model: Module, sizes: Sizes) -> None:
    """Make unit 0 of the decoder a counter that ends the translation, as trained decoders have them.

    Shi, Knight & Yuret 2016, "Why Neural Translations are the Right Length" (EMNLP). It starts where the sentence says,
    near 0, and passes 0.5 after the mean number of words.
    """
    width, keep = sizes.width, 0.5 ** (1 / (WORDS * sizes.length))  # of the distance to 1, at each word
    for matrix in ("weight_ih", "weight_hh"):
        model.get_parameter(f"cell.{matrix}")[[width, 2 * width]] = 0  # the update gate's row and the candidate's
        model.get_parameter(f"encoder.0.{matrix}")[2 * width] /= GAIN**2
    model.get_parameter("cell.bias_ih")[width] = math.log(keep / (1 - keep))
    model.get_parameter("cell.bias_ih")[2 * width] = 5  # tanh(5) is 1
    weight, bias = model.get_parameter("output.weight"), model.get_parameter("output.bias")
    weight[:, 0] = 0
    weight[END] /= 4  # the count decides
    weight[END, 0] = STEEPNESS
    bias[START] = -STEEPNESS  # never an answer
    bias[END] = LOGIT_DEVIATION * math.sqrt(2 * math.log(sizes.target)) - THRESHOLD * STEEPNESS


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw sentences of six words on average, with English word frequencies, and their end."""
    words = Popularity.zipf(sizes.source - SPECIAL, first_id=SPECIAL, **text.ENGLISH)
    lengths = Lengths(WORDS * sizes.length, 0.35, 2, sizes.length - 1)
    while True:
        yield text.request(np.append(words.draw(rng, lengths.draw(rng)), END), sizes.length)


TINY = Sizes(source=200, target=200, width=32, length=8)

WORKLOAD = define(
    "seq2seq",
    "Seq2seq with attention",
    # of 10 words in and 6 out, of 7 in and 6 out and of 10 in and out
    full=Variant(
        Sizes(),
        parameters=3_476_221,
        flops=22_858_752,
        flops_without_padding=20_499_456,
        flops_longest=32_855_040,
    ),
    # of 8 words in and 5 out, of 6 in and 5 out and of 8 in and out
    tiny=Variant(TINY, parameters=34_672, flops=251_904, flops_without_padding=227_328, flops_longest=344_064),
    task="text-to-text translation",
    suites=("HPC workload analysis",),
    inputs=lambda sizes: text.inputs(sizes.length),
    outputs=lambda sizes: text.outputs(sizes.length),
    max_batch=128,
    slo=Slo(99, 50),
    quality=Quality(
        "BLEU",
        None,
        "Tatoeba's sentence pairs, French to English",
        unmeasured="the zoo has no reader of Tatoeba's sentence pairs",
    ),
    citation="Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and Translate, ICLR "
    "(arXiv:1409.0473)",
    origin="PyTorch's tutorial, whose data set the HPC workload analysis names. The vocabularies are the tutorial's. "
    "The analysis gives no sizes and no figure.",
    locustfile="translation",
    build=build,
    samples=samples,
)
