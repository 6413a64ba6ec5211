"""Requests for libraries' models: each input says what it holds, and so how it is drawn."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.hub.blocks.ports import Port
from servemark.models.synthesis.images import picture
from servemark.models.synthesis.popularity import Lengths, Popularity
from servemark.models.synthesis.speech import SAMPLE_RATE, waveform
from servemark.models.synthesis.text import ENGLISH
from servemark.workload import Sample

QUESTION = 1 / 10
"""Share of the ids that are the question, of those with its context: our choice."""
SHORTEST_TEXT, MEAN_TEXT, TEXT_SIGMA = 8, 0.4, 0.6
"""Shortest text in ids; mean length as a share of the longest, and the deviation of its logarithm: our choice."""


def requests(inputs: tuple[Port, ...], rng: np.random.Generator) -> Iterator[Sample]:
    """Draw requests, endlessly."""
    length = next((port.shape[0] for port in inputs if port.holds == "ids"), 0)
    lengths = Lengths(MEAN_TEXT * length, TEXT_SIGMA, SHORTEST_TEXT, length) if length > 2 * SHORTEST_TEXT else None
    while True:
        taken = lengths.draw(rng) if lengths else length
        yield {port.name: _drawn(port, rng, taken) for port in inputs}


def _drawn(port: Port, rng: np.random.Generator, length: int) -> npt.NDArray[Any]:
    match port.holds:
        case "picture":
            mean, std = (np.array(each, np.float32)[:, None, None] for each in (port.mean, port.std))
            return np.asarray((picture(rng, *port.shape[1:]) - mean) / std, np.float32)
        case "ids":
            ids = np.full(port.shape, port.pad, np.int64)
            ids[:length] = _words(port.vocabulary).draw(rng, length)
            if port.first is not None:
                ids[0] = port.first
            if port.last is not None:
                ids[length - 1] = port.last
            return ids
        case "mask":
            return (np.arange(port.shape[0]) < length).astype(np.int64)
        case "context":
            place = np.arange(port.shape[0])
            return ((place >= length * QUESTION) & (place < length)).astype(np.int64)
        case "sound":
            # A recogniser's front end brings each utterance to mean 0 and deviation 1.
            sound = waveform(rng, port.shape[0] / SAMPLE_RATE)[: port.shape[0]]
            return np.asarray((sound - sound.mean()) / sound.std(), np.float32)
        case _:
            return rng.standard_normal(port.shape, dtype=np.float32)


@lru_cache(maxsize=4)
def _words(vocabulary: int) -> Popularity:
    return Popularity.zipf(vocabulary, s=ENGLISH["s"], q=ENGLISH["q"])
