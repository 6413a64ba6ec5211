"""Sentiment: tells positive film reviews from negative ones (MLPerf Training v0.5).

Johnson & Zhang 2015, "Effective Use of Word Order for Text Categorization with Convolutional Neural Networks" (NAACL),
in the size of MLPerf's PaddlePaddle reference: embedding of 1,024, two convolutions over 3 and over 4 words with 1,024
filters each and an ELU, their maxima over the review. The window of 3 is centred; that of 4 begins two words earlier,
that framework's rule for an even size. Reviews are padded to 400 words, and all 400 are computed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servemark.datasets import imdb
from servemark.models.blocks.weights import centre, drawn, seeded
from servemark.models.synthesis import text
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Example, LabelledSet, Module, Quality, Sample, Slo, Tensor, Variant, define

WINDOWS = (3, 4)
CALIBRATION_REVIEWS = 32


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, width of a word vector, filters of each window and the longest review."""

    vocabulary: int = imdb.VOCABULARY
    embedding: int = 1024
    filters: int = 1024
    length: int = 400


def network(sizes: Sizes) -> Module:
    """Define it: (words [B, L], length [B, 1] >= 1) -> probs [B, 2], of a positive and of a negative review."""
    import torch
    from torch import nn

    class Sentiment(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(sizes.vocabulary, sizes.embedding)
            self.convolutions = nn.ModuleList(nn.Conv1d(sizes.embedding, sizes.filters, size) for size in WINDOWS)
            self.output = nn.Linear(len(WINDOWS) * sizes.filters, 2)

        def logits(self, words: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
            beyond = text.beyond(words, length).unsqueeze(1)  # [B, 1, L]
            review = self.embedding(words.long()).transpose(1, 2).masked_fill(beyond, 0)
            maxima = []
            for size, convolution in zip(WINDOWS, self.convolutions, strict=True):
                padded = nn.functional.pad(review, (size // 2, (size - 1) // 2))
                # an ELU is above -1: what lies beyond the review is never the largest
                maxima.append(nn.functional.elu(convolution(padded)).masked_fill(beyond, -1).amax(dim=2))
            logits: torch.Tensor = self.output(torch.cat(maxima, dim=1))
            return logits

        def forward(self, words: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.logits(words, length), dim=1)

    return Sentiment()


def build(name: str, sizes: Sizes) -> Module:
    """Seed the network; the last layer takes out what all reviews have in common."""
    import torch

    words, length = drawn(samples(sizes, np.random.default_rng(0)), CALIBRATION_REVIEWS)
    with seeded(name), torch.no_grad():
        model = network(sizes).eval()
        logits = model.logits(words, length)  # type: ignore[operator]  # nn.Module knows nothing of it
        centre(model.get_submodule("output"), logits)  # type: ignore[arg-type]
    return model


def samples(sizes: Sizes, rng: np.random.Generator) -> Iterator[Sample]:
    """Draw reviews of 230 words on average, cut at the longest, with English word frequencies."""
    words = Popularity.zipf(sizes.vocabulary - 1, first_id=1, **text.ENGLISH)
    lengths = Lengths(230 / 400 * sizes.length, 0.7, sizes.length // 40 + 1, sizes.length)
    while True:
        yield request(words.draw(rng, lengths.draw(rng)), sizes.length)


def request(ids: "np.ndarray[tuple[int, ...], np.dtype[np.int32]]", length: int) -> Sample:
    """Pad a review to `length` words, or cut it."""
    review = text.request(ids, length)
    return {"words": review["src_ids"], "length": review["src_len"]}


def labelled(path: Path) -> LabelledSet:
    """Read the reviews of IMDB's test set, positive ones first: class 0. Raises InputDataError naming the file."""
    reviews = list(zip(imdb.read(path), imdb.labels(path), strict=True))
    return LabelledSet.of(reviews, lambda ids, label: Example((request(ids, Sizes().length),), label))


TINY = Sizes(vocabulary=200, embedding=16, filters=16, length=32)

WORKLOAD = define(
    "sentiment",
    "Convolutional sentiment analysis",
    # of 400 words, and of 230
    full=Variant(
        Sizes(),
        parameters=12_616_706,
        flops=400 * 14_680_064 + 8_192,
        flops_without_padding=230 * 14_680_064 + 8_192,
    ),
    tiny=Variant(TINY, parameters=5_090, flops=32 * 3_584 + 128, flops_without_padding=18 * 3_584 + 128),
    task="sentiment analysis",
    suites=("MLPerf Training v0.5",),
    inputs=lambda sizes: (Tensor("words", "INT32", (sizes.length,)), Tensor("length", "INT32", (1,))),
    outputs=lambda _: (Tensor("probs", "FP32", (2,)),),
    max_batch=64,
    slo=Slo(99, 30),
    quality=Quality("accuracy", 0.906, "IMDB test set, 25,000 reviews"),
    citation="Johnson & Zhang 2015, Effective Use of Word Order for Text Categorization, NAACL (arXiv:1412.1058)",
    origin="MLPerf Training v0.5's reference, and its target. The vocabulary is that framework's, words that come 150 "
    "times or more.",
    locustfile="sentiment",
    build=build,
    samples=samples,
    dataset=imdb.KEY,
    labelled=labelled,
)
