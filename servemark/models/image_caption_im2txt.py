"""Image captioning by im2txt's network (AIBench DC-AI-C4): `image_caption` as its paper and AIBench's own code have it.

Vinyals et al. 2017, "Show and Tell" (TPAMI), in the sizes of its code, im2txt, which AIBench's TensorFlow part is: an
Inception-v3 on pictures of 299 x 299, 512 units of embedding and of LSTM, 12,000 words. The picture is the LSTM's first
input, the start of the sentence its second. Decoded with beam 3 and 20 words at most, without a length penalty. Here an
ended caption stays in the beam; im2txt keeps it beside the beam.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from servemark.datasets import image_folder
from servemark.models import image_caption
from servemark.models.blocks import inception
from servemark.models.blocks.sequences import Search, TensorTuple, search
from servemark.models.image_caption import END, START
from servemark.models.synthesis.images import picture
from servemark.workload import Module, Sample, Variant

if TYPE_CHECKING:
    import torch

RESIZED = 346
"""Side of the square that a picture is stretched to, of which the centre is cut out."""


@dataclass(frozen=True, kw_only=True)
class Sizes(image_caption.Decoder):
    """Divisor of the trunk's widths, its blocks of the three sizes, and the beams."""

    divisor: int = 1
    repeats: tuple[int, int, int] = inception.REPEATS
    beams: int = 3


def network(sizes: Sizes) -> Module:
    """Define Show and Tell: image [B, 3, side, side] -> ids [B, steps], 0 after the end; lengths [B, 1]."""
    import torch
    from torch import nn

    rules = Search(sizes.steps, START, END, sizes.beams)

    class ShowAndTell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            trunk = inception.inception_v3(sizes.divisor, sizes.repeats)
            self.encoder = nn.Sequential(trunk, nn.Linear(inception.WIDTH // sizes.divisor, sizes.embedding))
            self.embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.cell = nn.LSTMCell(sizes.embedding, sizes.hidden)
            self.output = nn.Linear(sizes.hidden, sizes.vocabulary)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            ids, lengths, _ = search(self.step, self.look(image), rules)
            return ids, lengths

        def look(self, image: torch.Tensor) -> TensorTuple:
            """Return the LSTM's state behind the picture, h and c."""
            features = self.encoder(image)
            empty = features.new_zeros(features.shape[0], sizes.hidden)
            state: TensorTuple = self.cell(features, (empty, empty))
            return state

        def step(
            self, position: torch.Tensor, word: torch.Tensor, state: TensorTuple
        ) -> "tuple[torch.Tensor, TensorTuple]":
            """Read the last word [R], and weigh the next one [R, V]."""
            del position
            h, c = self.cell(self.embedding(word), state)
            return self.output(h), (h, c)

    return ShowAndTell()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network so that captions follow the picture, do not repeat one word, and end."""
    return image_caption.seeded_captioner(name, sizes, network, samples, first_word=1)


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw pictures with the statistics of natural images, in [-1, 1]."""
    while True:
        yield {"image": 2 * picture(rng, sizes.side, sizes.side) - 1}


def read(path: Path) -> Iterator[Sample]:
    """Stretch the pictures of COCO 2014 to 346 x 346, cut out the centre of 299 x 299, and scale them to [-1, 1].

    They are those of `val2014`, else of `train2014`, else of any folder. Raises InputDataError naming the file.
    """
    from PIL import Image

    start, end = (RESIZED - FULL.side) // 2, (RESIZED + FULL.side) // 2
    for file in image_folder.paths(image_caption.pictures(path)):
        square = image_folder.decode(file, file).resize((RESIZED, RESIZED), Image.Resampling.BILINEAR)
        pixels = np.asarray(square.crop((start, start, end, end)), np.float32).transpose(2, 0, 1)
        yield {"image": np.ascontiguousarray(pixels / np.float32(127.5) - 1)}


FULL = Sizes(side=299, vocabulary=12_000, embedding=512)
TINY = Sizes(divisor=8, repeats=(1, 1, 1), side=75, vocabulary=100, embedding=16, hidden=32, steps=6, beams=2)

WORKLOAD = image_caption.captioner(
    "image_caption_im2txt",
    "Show and Tell, im2txt",
    suites=("AIBench DC-AI-C4, variant",),
    origin="The paper's code, im2txt, which AIBench's TensorFlow part is. Its PyTorch part has the same trunk, 299 "
    "units of embedding and greedy decoding. The perplexity 4.2 is of its training batches.",
    # of captions of 10 words and of 20, all beams
    full=Variant(FULL, parameters=37_235_904, flops=11_923_096_768, flops_longest=12_417_565_888),
    tiny=Variant(TINY, parameters=165_432, flops=4_048_760, flops_longest=4_160_888),
    build=build,
    samples=samples,
    read=read,
)
