"""Sends a labelled set's examples as requests, and makes rows of their answers."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servemark.errors import InputDataError
from servemark.quality.journal import Journal, Scored
from servemark.quality.metric import Metric
from servemark.workload import Arrays, Example, LabelledSet, Sample, Tensor

SHORT_DIGEST = 16
"""Hex digits of an example's digest: enough that no two of a set are taken for each other."""


def digest_of(example: Example) -> str:
    """What an example is, its inputs and its label."""
    found = hashlib.sha256()
    for request in example.requests:
        for name, array in sorted(request.items()):
            found.update(f"{name} {array.dtype} {array.shape}\n".encode())
            found.update(array.tobytes())
    found.update(json.dumps(example.label, default=_plain).encode())
    return found.hexdigest()[:SHORT_DIGEST]


def chosen(size: int, samples: int | None, seed: int) -> list[int]:
    """The examples that are sent: all, or a random subset, in their order."""
    if samples is None or samples >= size:
        return list(range(size))
    return sorted(np.random.default_rng(seed).choice(size, samples, replace=False).tolist())


@dataclass
class Scorer:
    """Knows which example each request is of, and adds to the journal what is complete.

    Raises InputDataError where a label is none of the metric's.
    """

    metric: Metric
    data: LabelledSet
    journal: Journal
    errors: Counter[str] = field(default_factory=Counter)
    """Failed requests by kind; an example of several requests may have several."""
    _open: dict[int, "_Waiting"] = field(default_factory=dict)

    def requests(self, examples: Sequence[int]) -> Iterator[tuple[int, int, Sample]]:
        """The samples to send: the number of the example, which of its requests, and the sample."""
        for number in examples:
            example = self.data.example(number)
            self._open[number] = _Waiting(example.label, digest_of(example), [None] * len(example.requests))
            for part, sample in enumerate(example.requests):
                yield number, part, sample

    def answered(self, number: int, part: int, outputs: Sample) -> None:
        """Take a sample's outputs, without the batch dimension."""
        waiting = self._open[number]
        waiting.predictions[part] = self.data.prediction(outputs, waiting.label)
        self._complete(number, waiting)

    def failed(self, number: int, part: int, error: str) -> None:
        """Take a failure: the example is wrong."""
        waiting = self._open[number]
        waiting.error = error
        waiting.predictions[part] = _FAILED
        self._complete(number, waiting)

    def _complete(self, number: int, waiting: "_Waiting") -> None:
        if any(prediction is None for prediction in waiting.predictions):
            return
        del self._open[number]
        try:
            if waiting.error is not None:
                row = self.metric.wrong(waiting.label)
            else:
                row = self.metric.row(waiting.predictions, waiting.label)
        except ValueError as error:
            raise InputDataError(
                f"example {number} of the data set does not fit {self.metric.figures[0]}: {error}",
                fix="lay out the data set, and the labels, that the model was trained for",
            ) from error
        self.journal.add(Scored(number, waiting.digest, row, waiting.error))


_FAILED = object()


@dataclass
class _Waiting:
    label: Any
    digest: str
    predictions: list[Any]
    error: str | None = None


def rows_of(outputs: Arrays, tensors: Sequence[Tensor]) -> Iterator[Sample]:
    """A batch's outputs, sample by sample."""
    for index in range(len(outputs[tensors[0].name])):
        yield {tensor.name: outputs[tensor.name][index] for tensor in tensors}


def set_digest(scored: Sequence[Scored]) -> str:
    """SHA-256 of the examples that were scored, with their numbers: equal for equal data."""
    lines = (f"{entry.example} {entry.digest}\n" for entry in sorted(scored))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON has no form for: numbers of numpy's, arrays by their digest, sets in order."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return value.item() if isinstance(value, np.generic) else sorted(value)
