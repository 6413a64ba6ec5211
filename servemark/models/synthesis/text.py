"""Sentences in, sentences out: what the translators and the summariser share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.workload import Sample, Tensor

if TYPE_CHECKING:
    import torch

ENGLISH = {"s": 1.0, "q": 2.7}
"""Zipf-Mandelbrot's parameters for English words (Mandelbrot 1953)."""


def inputs(source: int) -> tuple[Tensor, ...]:
    """Describe a sentence of 1 to `source` ids; what lies beyond its length is ignored."""
    return Tensor("src_ids", "INT32", (source,)), Tensor("src_len", "INT32", (1,))


def outputs(target: int) -> tuple[Tensor, ...]:
    """Describe an answer: ids without the end of sentence, then 0; the count of ids; the hypothesis' score."""
    return Tensor("ids", "INT32", (target,)), Tensor("lengths", "INT32", (1,)), Tensor("score", "FP32", (1,))


def sentences(rng: np.random.Generator, words: Popularity, lengths: Lengths, source: int) -> Iterator[Sample]:
    """Draw sentences whose words have the frequencies of a language."""
    while True:
        yield request(words.draw(rng, lengths.draw(rng)), source)


def windows(
    rng: np.random.Generator, words: Popularity, lengths: Lengths, count: int, end: int
) -> Iterator[npt.NDArray[np.int32]]:
    """Draw running text [count], the id `end` after each sentence; a window begins anywhere in one."""
    while True:
        tokens = words.draw(rng, count)
        place = rng.integers(lengths.draw(rng) + 1)
        while place < count:
            tokens[place] = end
            place += lengths.draw(rng) + 1
        yield tokens


def request(ids: npt.ArrayLike, source: int) -> Sample:
    """Pad a sentence to `source` ids, or cut it."""
    sentence = np.asarray(ids, np.int32)[:source]
    padded = np.zeros(source, np.int32)
    padded[: len(sentence)] = sentence
    return {"src_ids": padded, "src_len": np.array([len(sentence)], np.int32)}


def answered(outputs: Sample) -> list[int]:
    """The ids of an answer."""
    return [int(word) for word in outputs["ids"].reshape(-1)[: int(outputs["lengths"].reshape(-1)[0])]]


def beyond(ids: "torch.Tensor", length: "torch.Tensor") -> "torch.Tensor":
    """Mark the padding: [B, S] of bool, for ids [B, S] and their lengths [B, 1].

    An empty sentence is read as its first id, which is padding: it must not fail the batch that it came into.
    """
    import torch

    return torch.arange(ids.shape[1], device=ids.device) >= length.clamp(min=1)
