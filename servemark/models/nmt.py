"""Neural machine translation, German to English (AI Matrix): GNMT's recurrent encoder and decoder with beam search.

Wu et al. 2016, "Google's Neural Machine Translation System", in the form of tensorflow/nmt (Luong, Brevdo & Zhao 2017)
with the settings that AI Matrix runs: 4 + 4 layers, attention "gnmt_v2", beam 10, length penalty 1.0. The first encoder
layer is bidirectional with 1,024 units in each direction, which the second reads together. The attention's context
goes to every decoder layer, in the same step to all but the first. AI Matrix does not set the inference mode, whose
default is greedy: `nmt_greedy` is that.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from servemark.datasets import wmt
from servemark.models.blocks.sequences import LOGIT_DEVIATION, Search, TensorTuple, lstm, search
from servemark.models.blocks.weights import glorot, seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Variant, define

START, END = 1, 2
SPECIAL = 3
"""<unk>, <s>, </s>"""
SCORED = "newstest2015"
"""The test set of tensorflow/nmt's German to English."""


@dataclass(frozen=True)
class Sizes:
    """Vocabulary of each language, width of all layers, longest source and translation, and the search.

    The vocabulary is nominal: 32,000 merges give a few hundred more entries, MLPerf's GNMT pads them to this.
    """

    vocabulary: int = 32_320
    width: int = 1024
    length: int = 50
    beams: int = 10
    length_penalty: float = 1.0


def network(sizes: Sizes) -> Module:
    """Define GNMT: (src_ids [B, S], src_len [B, 1] >= 1) -> ids [B, T], lengths [B, 1], score [B, 1]."""
    import torch
    from torch import nn

    width = sizes.width
    rules = Search(sizes.length, START, END, sizes.beams, sizes.length_penalty)

    class Gnmt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source_embedding = nn.Embedding(sizes.vocabulary, width)
            self.target_embedding = nn.Embedding(sizes.vocabulary, width)
            self.bidirectional = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(2))  # there and back
            self.encoder = nn.ModuleList(nn.LSTMCell(inputs, width) for inputs in (2 * width, width, width))
            self.decoder = nn.ModuleList(nn.LSTMCell(2 * width, width) for _ in range(4))
            self.key = nn.Linear(width, width, bias=False)
            self.query = nn.Linear(width, width, bias=False)
            self.energy = nn.Parameter(torch.empty(width))
            self.energy_scale = nn.Parameter(torch.empty(()))
            self.energy_bias = nn.Parameter(torch.empty(width))
            self.output = nn.Linear(width, sizes.vocabulary, bias=False)

        def forward(self, src_ids: torch.Tensor, src_len: torch.Tensor) -> TensorTuple:
            memory, state = self.encode(src_ids.long(), src_len.long())
            return search(partial(self.step, memory), state, rules)

        def encode(self, ids: torch.Tensor, length: torch.Tensor) -> tuple[TensorTuple, TensorTuple]:
            """Return the memory and the decoder's first state: h and c of its four layers, then the context."""
            padding = text.beyond(ids, length)
            outputs, h, c = lstm(self.bidirectional, self.source_embedding(ids), padding)
            state = [h[1], c[1]]  # of the backward direction
            for layer, cell in enumerate(self.encoder):
                above, h, c = lstm([cell], outputs, padding)
                outputs = above + outputs if layer else above  # the first one reads two directions
                state += [h[0], c[0]]
            energy = self.energy_scale * self.energy / self.energy.norm()
            memory = (outputs, self.key(outputs) + self.energy_bias, padding, energy.unsqueeze(0))
            return memory, (*state, torch.zeros_like(h[0]))

        def step(
            self, memory: TensorTuple, position: torch.Tensor, word: torch.Tensor, state: TensorTuple
        ) -> tuple[torch.Tensor, TensorTuple]:
            """Read the last word [R] and the last context, look at the source, and weigh the next word [R, V]."""
            del position
            *layers, context = state
            output, c = self.decoder[0](torch.cat([self.target_embedding(word), context], dim=1), tuple(layers[:2]))
            after = [output, c]
            context = self.attend(memory, output)
            for layer in (1, 2, 3):
                inputs = torch.cat([output, context], dim=1)
                h, c = self.decoder[layer](inputs, tuple(layers[2 * layer : 2 * layer + 2]))
                output = h + output if layer > 1 else h
                after += [h, c]
            return self.output(output), (*after, context)

        def attend(self, memory: TensorTuple, hidden: torch.Tensor) -> torch.Tensor:
            """Look at the source: rows [R, W] -> contexts [R, W]."""
            states, keys, padding, weight = memory
            query = self.query(hidden).reshape(keys.shape[0], -1, 1, width)  # [B, beams, 1, W]
            energy = nn.functional.linear(torch.tanh(query + keys.unsqueeze(1)), weight).squeeze(3)  # [B, beams, S]
            energy = energy.masked_fill(padding.unsqueeze(1), torch.finfo(energy.dtype).min)
            return torch.bmm(torch.softmax(energy, dim=2), states).flatten(0, 1)

    return Gnmt()


GAIN = 4.0
"""Of the recurrent weights: below 1 the state forgets the source, far above it saturates."""
ATTENTION_SCALE = 4.0
STEEPNESS = 80.0
"""Logits of the end for each unit of the count."""
LENGTH_NOISE = 0.4
"""Standard deviation of the room that a word takes up, around 1."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that translations follow the source, do not repeat one word, and are as long as it."""
    import torch
    from torch import nn

    with seeded(name), torch.no_grad():
        model = network(sizes)
        glorot(model, GAIN)
        nn.init.normal_(model.get_parameter("energy"))
        nn.init.constant_(model.get_parameter("energy_scale"), ATTENTION_SCALE)
        # the decoder's outputs are some 0.5 in size
        nn.init.normal_(model.get_parameter("output.weight"), std=2 * LOGIT_DEVIATION / sizes.width**0.5)
        count_words(model, sizes)
    return model.eval()


def count_words(model: Module, sizes: Sizes) -> None:
    """Make unit 0 count the source's words in the encoder and count them down in the decoder, until the end.

    Trained translators do just that: Shi, Knight & Yuret 2016, "Why Neural Translations are the Right Length" (EMNLP).
    """
    import torch

    width = sizes.width
    rows = [0, width, 2 * width, 3 * width]  # unit 0 of the gates input, forget, cell and output

    def gates(layer: str, *biases: float) -> None:
        model.get_parameter(f"{layer}.weight_ih")[rows] = 0
        model.get_parameter(f"{layer}.weight_hh")[rows] = 0
        model.get_parameter(f"{layer}.bias_ih")[rows] = torch.tensor(biases, dtype=torch.float32)

    tick = math.atanh(min(0.3, 5 / sizes.length))
    shift = LOGIT_DEVIATION * math.sqrt(2 * math.log(sizes.vocabulary)) / STEEPNESS
    gates("bidirectional.1", 10, 10, tick, 10)
    gates("decoder.0", 10, 10, -tick, 10)
    words = model.get_parameter("decoder.0.weight_ih")[2 * width, :width]
    words.normal_(std=LENGTH_NOISE * tick / width**0.5)
    gates("decoder.1", 10, -10, -shift, 10)  # hands the count on, less what outweighs the likeliest word
    model.get_parameter("decoder.1.weight_ih")[2 * width, 0] = 1
    gates("decoder.2", 0, 0, 0, 0)  # adds nothing to what it hands on
    gates("decoder.3", 0, 0, 0, 0)
    weight = model.get_parameter("output.weight")
    weight[:, 0] = 0
    weight[END] /= 4  # the count decides
    weight[END, 0] = -STEEPNESS


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw sentences of subwords: 27 on average, with a language's frequencies."""
    words = Popularity.zipf(sizes.vocabulary - SPECIAL, first_id=SPECIAL, **text.ENGLISH)
    lengths = Lengths(27 / 50 * sizes.length, 0.5, min(3, sizes.length // 4), sizes.length)
    return text.sentences(rng, words, lengths, sizes.length)


def read(path: Path) -> Iterator[Sample]:
    """Read the German side of WMT's newstest."""
    sizes = Sizes()
    return (text.request(ids, sizes.length) for ids in wmt.read(path, "de", sizes.vocabulary))


def labelled(path: Path) -> LabelledSet:
    """The sentences of newstest2015 with their English, as whole words. Raises InputDataError naming file and line."""
    sizes = Sizes()
    data = wmt.translated(path, "de", "en", sizes.vocabulary, SCORED)

    def words(outputs: Sample, _label: str) -> str:
        return wmt.joined([data.words.get(word, wmt.SPECIAL[wmt.UNKNOWN]) for word in text.answered(outputs)])

    def example(source: list[int], reference: list[str]) -> Example:
        return Example((text.request(source, sizes.length),), wmt.joined(reference))

    return LabelledSet.of(list(zip(data.requests, data.references, strict=True)), example, words)


translator = partial(
    define,
    task="text-to-text translation",
    suites=("AI Matrix",),
    inputs=lambda sizes: text.inputs(sizes.length),
    outputs=lambda sizes: text.outputs(sizes.length),
    max_batch=256,
    slo=Slo(99, 250),
    quality=Quality("BLEU", None, f"{SCORED}, German to English"),
    citation="Wu et al. 2016, Google's Neural Machine Translation System (arXiv:1609.08144)",
    locustfile="translation",
    build=lambda variant, sizes: build("nmt_tiny" if variant.endswith("_tiny") else "nmt", sizes),
    samples=samples,
    dataset=wmt.KEY,
    read=read,
    labelled=labelled,
)
"""Describes a translator with the weights of `nmt` or of its tiny variant, and a search of its own."""

FULL, TINY = Sizes(), Sizes(vocabulary=200, width=32, length=8, beams=2)

WORKLOAD = translator(
    "nmt",
    "GNMT, beam search",
    origin="tensorflow/nmt's GNMT with AI Matrix's settings, which publishes seconds and no BLEU.",
    # of 50 words in and 27 out, of 27 in and out and of 50, all beams
    full=Variant(
        FULL,
        parameters=197_928_961,
        flops=50_390_876_160,
        flops_without_padding=48_194_887_680,
        flops_longest=89_296_896_000,
    ),
    # of 8 words in and 4 out, of 4 in and out and of 8
    tiny=Variant(TINY, parameters=117_825, flops=1_650_688, flops_without_padding=1_277_952, flops_longest=2_564_096),
)
