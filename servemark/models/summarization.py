"""Headline generation: the first sentence of an article becomes its headline (AIBench DC-AI-C14).

Nallapati et al. 2016, "Abstractive Text Summarization Using Sequence-to-Sequence RNNs and Beyond" (CoNLL): a
bidirectional GRU encoder and a GRU decoder with additive attention, decoded with beam search of width 5 (section 4.1).
The attention's scores are those of Bahdanau et al. 2015. Here it is computed from a step's new state, and its context
enters the next step. Theirs is computed from the old state and enters the same one. Vocabularies of 50,000 words and
lengths of 55 and 15 are AIBench's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from servemark.datasets import gigaword
from servemark.models.blocks.sequences import LOGIT_DEVIATION, Search, TensorTuple, gru, search
from servemark.models.blocks.weights import glorot, seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Variant, define

PAD, START, END = 0, 2, 3
SPECIAL = 4
"""<pad>, <unk>, <s>, </s>"""


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, width of a word vector, width of a GRU's direction, longest article and headline, beams."""

    vocabulary: int = 50_000
    embedding: int = 200
    hidden: int = 200
    source: int = 55
    target: int = 15
    beams: int = 5


def network(sizes: Sizes) -> Module:
    """Define the summariser: (src_ids [B, S], src_len [B, 1] >= 1) -> ids [B, T], lengths [B, 1], score [B, 1]."""
    import torch
    from torch import nn

    width = 2 * sizes.hidden
    rules = Search(sizes.target, START, END, sizes.beams)

    class Summarizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source_embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.target_embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.encoder = nn.ModuleList(nn.GRUCell(sizes.embedding, sizes.hidden) for _ in range(2))  # there and back
            self.bridge = nn.Linear(width, width)
            self.cell = nn.GRUCell(sizes.embedding + width, width)
            self.query = nn.Linear(width, width, bias=False)
            self.key = nn.Linear(width, width, bias=False)
            self.energy = nn.Linear(width, 1, bias=False)
            self.output = nn.Linear(width, sizes.vocabulary)

        def forward(self, src_ids: torch.Tensor, src_len: torch.Tensor) -> TensorTuple:
            memory, state = self.encode(src_ids.long(), src_len.long())
            return search(partial(self.step, memory), state, rules)

        def encode(self, ids: torch.Tensor, length: torch.Tensor) -> tuple[TensorTuple, TensorTuple]:
            """Return the memory (states [B, S, W], keys [B, S, W], padding [B, S]) and the first state and context."""
            padding = text.beyond(ids, length)
            states, final = gru(self.encoder, self.source_embedding(ids), padding)
            first = torch.tanh(self.bridge(final.transpose(0, 1).flatten(1)))
            return (states, self.key(states), padding), (first, torch.zeros_like(first))

        def step(
            self, memory: TensorTuple, position: torch.Tensor, word: torch.Tensor, state: TensorTuple
        ) -> tuple[torch.Tensor, TensorTuple]:
            """Read the last word [R] and the context, look at the article, and weigh the next word [R, V]."""
            del position
            states, keys, padding = memory
            hidden, context = state
            hidden = self.cell(torch.cat([self.target_embedding(word), context], dim=1), hidden)
            query = self.query(hidden).reshape(keys.shape[0], -1, 1, width)  # [B, beams, 1, W]
            energy = self.energy(torch.tanh(query + keys.unsqueeze(1))).squeeze(3)  # [B, beams, S]
            energy = energy.masked_fill(padding.unsqueeze(1), torch.finfo(energy.dtype).min)
            context = torch.bmm(torch.softmax(energy, dim=2), states).flatten(0, 1)
            return self.output(hidden), (hidden, context)

    return Summarizer()


GAIN = 3.0
"""Of the recurrent weights: below 1 the state forgets the article, far above it saturates."""
HEADLINE = 8.3 / 15
"""Mean length of Gigaword's headlines, as a share of the longest."""
STEEPNESS = 120.0
"""Logits of the end for each unit of the counter."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that headlines follow the article, do not repeat one word, and end."""
    import torch
    from torch import nn

    with seeded(name), torch.no_grad():
        model = network(sizes)
        glorot(model, GAIN)
        nn.init.normal_(model.get_parameter("output.weight"), std=LOGIT_DEVIATION / (2 * sizes.hidden) ** 0.5)
        count_words(model, sizes)
    return model.eval()


def count_words(model: Module, sizes: Sizes) -> None:
    """Make unit 0 of the decoder a counter that ends the headline, as trained decoders have them.

    Shi, Knight & Yuret 2016, "Why Neural Translations are the Right Length" (EMNLP). It starts where the article says,
    rises towards 1 and passes 0.5 after some 8 words. Beam search favours short headlines, so the end outweighs the
    likeliest word at 0.65 only.
    """
    width, keep = 2 * sizes.hidden, 0.5 ** (1 / (HEADLINE * sizes.target))  # of the distance to 1, at each word
    for matrix in ("cell.weight_ih", "cell.weight_hh"):
        model.get_parameter(matrix)[[width, 2 * width]] = 0  # the update gate's row and the candidate's
    model.get_parameter("cell.bias_ih")[width] = math.log(keep / (1 - keep))
    model.get_parameter("cell.bias_ih")[2 * width] = 5  # tanh(5) is 1
    model.get_parameter("bridge.weight")[0] /= GAIN**2  # starts within some 0.3 of 0
    weight, bias = model.get_parameter("output.weight"), model.get_parameter("output.bias")
    weight[:, 0] = 0
    weight[END, 0] = STEEPNESS
    bias[[PAD, START]] = -STEEPNESS  # never an answer
    bias[END] = LOGIT_DEVIATION * math.sqrt(2 * math.log(sizes.vocabulary)) - 0.65 * STEEPNESS


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw articles' first sentences: 31 words on average, with English word frequencies."""
    words = Popularity.zipf(sizes.vocabulary - SPECIAL, first_id=SPECIAL, **text.ENGLISH)
    lengths = Lengths(min(31, sizes.source * 0.6), 0.32, min(8, sizes.source // 2), sizes.source)
    return text.sentences(rng, words, lengths, sizes.source)


def read(path: Path) -> Iterator[Sample]:
    """Read the articles of Gigaword's test set."""
    sizes = Sizes()
    return (text.request(ids, sizes.source) for ids in gigaword.read(path, sizes.vocabulary))


def labelled(path: Path) -> LabelledSet:
    """The same with their headlines. Raises InputDataError naming file and line."""
    sizes = Sizes()
    articles, headlines, words = gigaword.summarised(path, sizes.vocabulary)

    def headline(outputs: Sample, _label: str) -> str:
        return " ".join(words.get(word, gigaword.SPECIAL[gigaword.UNKNOWN]) for word in text.answered(outputs))

    def example(index: int) -> Example:
        return Example((text.request(articles[index], sizes.source),), headlines[index])

    return LabelledSet(len(articles), example, headline)


TINY = Sizes(vocabulary=200, embedding=16, hidden=16, source=12, target=6, beams=2)

WORKLOAD = define(
    "summarization",
    "Attentional GRU summariser",
    # of 55 words in and 8 out, of 31 in and 8 out and of 55 and 15, all beams
    full=Variant(
        Sizes(),
        parameters=42_215_600,
        flops=1_783_040_000,
        flops_without_padding=1_750_784_000,
        flops_longest=3_281_320_000,
    ),
    # of 12 words in and 3 out, of 7 in and 3 out and of 12 and 6
    tiny=Variant(TINY, parameters=27_272, flops=290_816, flops_without_padding=246_016, flops_longest=481_280),
    task="text summarization",
    suites=("AIBench DC-AI-C14",),
    inputs=lambda sizes: text.inputs(sizes.source),
    outputs=lambda sizes: text.outputs(sizes.target),
    max_batch=64,
    slo=Slo(99, 200),
    quality=Quality("ROUGE-L", 41.0, "Gigaword's test headlines of Rush et al. 2015"),
    citation="Nallapati et al. 2016, Abstractive Text Summarization Using Seq2seq RNNs, CoNLL (arXiv:1602.06023)",
    origin="The cited paper's words-only network. AIBench's own code is an LSTM pointer-generator, and the ROUGE-L of "
    "41 is that network's.",
    locustfile="summarization",
    build=build,
    samples=samples,
    dataset=gigaword.KEY,
    read=read,
    labelled=labelled,
)
