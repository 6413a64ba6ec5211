"""Image captioning (AIBench DC-AI-C4).

Vinyals et al. 2017, "Show and Tell: Lessons Learned from the 2015 MSCOCO Image Captioning Challenge" (TPAMI): a
convolutional network's features are the first input of an LSTM, its words the next ones. AIBench gives its largest
model 68.4 M parameters, which no documented sizes give. These are a ResNet-152 trunk, 256 units of embedding, 512 of
LSTM, and the 9,957 words that COCO's captions use at least four times: 67.9 M. With the 299 units of embedding of
AIBench's code they would be 68.5 M. Decoded greedily for 20 steps, as AIBench's code does.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from servemark.datasets import image_folder
from servemark.models.blocks import classification, resnet
from servemark.models.blocks.sequences import LOGIT_DEVIATION
from servemark.models.blocks.weights import calibrate, drawn, he, seeded
from servemark.workload import Module, Quality, Sample, Slo, Tensor, Variant, define

PAD, START, END = 0, 1, 2
SETS = ("val2014", "train2014")


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Picture side, vocabulary, widths of embedding and LSTM, and how many words are decoded at most."""

    side: int
    vocabulary: int
    embedding: int
    hidden: int = 512
    steps: int = 20


@dataclass(frozen=True, kw_only=True)
class Sizes(Decoder):
    """Blocks and first width of the trunk."""

    blocks: tuple[int, int, int, int]
    width: int = 64


Captioner = TypeVar("Captioner", bound=Decoder)


def network(sizes: Sizes) -> Module:
    """Define Show and Tell: image [B, 3, side, side] -> ids [B, steps], 0 after the end; lengths [B, 1]."""
    import torch
    from torch import nn

    trunk = resnet.Sizes(sizes.blocks, sizes.width, classes=sizes.embedding, side=sizes.side)

    class ShowAndTell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(resnet.network(trunk), nn.BatchNorm1d(sizes.embedding))
            self.embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.cell = nn.LSTMCell(sizes.embedding, sizes.hidden)
            self.output = nn.Linear(sizes.hidden, sizes.vocabulary)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            inputs = self.encoder(image)
            h = c = inputs.new_zeros(inputs.shape[0], sizes.hidden)
            ended = torch.zeros_like(h[:, 0], dtype=torch.bool)
            words, live = [], []
            for _ in range(sizes.steps):
                h, c = self.cell(inputs, (h, c))
                word = self.output(h).argmax(dim=1)
                ended = ended | (word == END)
                words.append(word.masked_fill(ended, PAD))
                live.append(~ended)
                inputs = self.embedding(word)
            return torch.stack(words, dim=1).int(), torch.stack(live, dim=1).sum(dim=1, keepdim=True).int()

    return ShowAndTell()


GAIN = 4.0
"""Of the recurrent weights: below 1 the state forgets the picture, far above it saturates."""
CAPTION = 10.5 / 20
"""Mean length of COCO's captions, as a share of the steps."""
FULL_COUNT = 0.55
LENGTH_NOISE = 0.6
"""Standard deviation of the room that a word takes up, around 1."""
STEEPNESS = 150.0
"""Logits of the end for each unit of the count."""


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that captions follow the picture, do not repeat one word, and end."""
    return seeded_captioner(name, sizes, network, classification.samples)


def seeded_captioner(
    name: str,
    sizes: Captioner,
    network: Callable[[Captioner], Module],
    samples: Callable[[Captioner, np.random.Generator], Iterator[Sample]],
    *,
    first_word: int = 0,
) -> Module:
    """Seed an `encoder`, a `cell`, an `embedding` and an `output`; `first_word` inputs precede the words."""
    import torch
    from torch import nn

    (batch,) = drawn(samples(sizes, np.random.default_rng(0)), classification.CALIBRATION_SAMPLES)
    with seeded(name), torch.no_grad():
        model = network(sizes)
        encoder = model.get_submodule("encoder")
        he(encoder)
        calibrate(encoder, batch)
        for matrix in ("cell.weight_ih", "cell.weight_hh"):
            nn.init.xavier_normal_(model.get_parameter(matrix), gain=GAIN)
        # the LSTM's outputs are some 0.5 in size
        nn.init.normal_(model.get_parameter("output.weight"), std=2 * LOGIT_DEVIATION / sizes.hidden**0.5)
        for vector in ("cell.bias_ih", "cell.bias_hh", "output.bias"):
            nn.init.zeros_(model.get_parameter(vector))
        count_words(model, sizes, first_word)
    return model.eval()


def count_words(model: Module, sizes: Decoder, first_word: int) -> None:
    """Make unit 0 of the LSTM a counter that ends the caption, as trained decoders have them.

    Shi, Knight & Yuret 2016, "Why Neural Translations are the Right Length" (EMNLP).
    """
    import torch

    rows = torch.arange(4) * sizes.hidden  # unit 0 of the input, forget, cell and output gate
    tick = FULL_COUNT / (CAPTION * sizes.steps + first_word)
    for matrix in ("cell.weight_ih", "cell.weight_hh"):
        model.get_parameter(matrix)[rows] = 0
    model.get_parameter("cell.bias_ih")[rows] = torch.tensor([10, 10, math.atanh(tick), 10])
    model.get_parameter("cell.weight_ih")[rows[2]].normal_(std=LENGTH_NOISE * tick / sizes.embedding**0.5)
    weight, bias = model.get_parameter("output.weight"), model.get_parameter("output.bias")
    weight[:, 0] = 0
    weight[END] /= 4  # the count decides
    weight[END, 0] = STEEPNESS
    bias[[PAD, START]] = -STEEPNESS  # never an answer
    likeliest = LOGIT_DEVIATION * math.sqrt(2 * math.log(sizes.vocabulary))
    bias[END] = likeliest - STEEPNESS * math.tanh(FULL_COUNT)


def pictures(path: Path) -> Path:
    """Find the pictures of COCO 2014: `val2014`, else `train2014`, else the folder itself."""
    return next((path / name for name in SETS if (path / name).is_dir()), path)


def read(path: Path) -> Iterator[Sample]:
    """Preprocess the pictures of COCO 2014: of `val2014`, else of `train2014`, else of any folder.

    Raises InputDataError naming the file.
    """
    for picture in image_folder.read(pictures(path)):
        yield {"image": picture}


captioner = partial(
    define,
    task="image captioning",
    inputs=lambda sizes: (Tensor("image", "FP32", (3, sizes.side, sizes.side)),),
    outputs=lambda sizes: (Tensor("ids", "INT32", (sizes.steps,)), Tensor("lengths", "INT32", (1,))),
    max_batch=64,
    slo=Slo(99, 100),
    quality=Quality(
        "perplexity",
        4.2,
        "COCO 2014 captions; AIBench's figure is of a training batch",
        unmeasured="it needs the probability of each word of a reference, and words are answered",
    ),
    citation="Vinyals et al. 2017, Show and Tell: Lessons Learned, TPAMI 39(4) (arXiv:1609.06647)",
    locustfile="captioning",
    dataset="coco2014",
)
"""Describes a network that maps `image` to the ids of a caption."""

FULL = Sizes(blocks=(3, 8, 36, 3), side=224, vocabulary=9_957, embedding=256)
TINY = Sizes(blocks=(1, 2, 3, 1), width=8, side=32, vocabulary=100, embedding=16, hidden=32, steps=6)

WORKLOAD = captioner(
    "image_caption",
    "Show and Tell",
    suites=("AIBench DC-AI-C4",),
    origin="A tutorial's ResNet-152 network with 256 units of embedding. AIBench's 68.4 M parameters are nearer to its "
    "68.5 M with 299 units. AIBench's own code has an Inception-v3 (`image_caption_im2txt` is its TensorFlow form). "
    "The perplexity 4.2 is of its training batches.",
    # of 20 words, and of 10
    full=Variant(FULL, parameters=67_902_757, flops=23_291_039_744, flops_without_padding=23_157_622_784),
    tiny=Variant(TINY, parameters=183_964, flops=2_000_384, flops_without_padding=1_944_320),  # of 6, and of 3
    build=build,
    samples=classification.samples,
    read=read,
)
