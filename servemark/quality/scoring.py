"""Scoring: makes requests of a labelled set's examples, and rows of their answers; a journal keeps them on disk."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from servemark.errors import InputDataError, ResultError, parsing
from servemark.quality.metrics import Metric, Row
from servemark.results.directory import write_atomically
from servemark.workload import Arrays, Example, LabelledSet, Sample, Tensor

FILE = "examples.jsonl"
NOT_A_NUMBER = "not_a_number"
"""Kind of failure of an example whose answer holds NaN or gives an infinite figure."""
NOT_DECODABLE = "not_decodable"
"""Kind of failure of an example whose answer is none of the model's: an id beyond its alphabet, another shape."""


class Scored(NamedTuple):
    """One example: its number, the digest of its requests and label, its row, and the kind of failure."""

    example: int
    digest: str
    row: Row | None
    """None if the example failed and the metric has no worst answer."""
    error: str | None = None


class Journal:
    """A line of JSON for each example, so that an interrupted run goes on where it stopped. A context manager.

    Lines are in the order of the answers. Raises ResultError where it cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.scored: dict[int, Scored] = {entry.example: entry for entry in self._read()}

    def __enter__(self) -> Self:
        # Drops a line that was cut in the middle; replaces the whole file, so that an interruption here loses nothing.
        write_atomically(self.path, "".join(map(_line, self.scored.values())))
        try:
            self._file = self.path.open("a")
        except OSError as error:
            raise ResultError(f"{self.path} cannot be written: {error.strerror}", fix="--out DIR") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, entry: Scored) -> None:
        """Keep an example."""
        self.scored[entry.example] = entry
        self._file.write(_line(entry))

    def flush(self) -> None:
        """Hand the added lines over to the operating system."""
        self._file.flush()

    def _read(self) -> Iterator[Scored]:
        if not self.path.exists():
            return
        with parsing(self.path, ResultError, fix="--fresh begins anew"):
            for line in self.path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    fields: list[Any] = json.loads(line)
                    yield Scored(*fields)


def _line(entry: Scored) -> str:
    return json.dumps(entry) + "\n"


SHORT_DIGEST = 16
"""Hex digits of an example's digest: enough that no two of a set are taken for each other."""
NO_ANSWER = "no_answer"


def digest_of(example: Example) -> str:
    """Digest an example's inputs and label."""
    found = hashlib.sha256()
    for request in example.requests:
        for name, array in sorted(request.items()):
            found.update(f"{name} {array.dtype} {array.shape}\n".encode())
            found.update(array.tobytes())
    found.update(json.dumps(example.label, default=_plain).encode())
    return found.hexdigest()[:SHORT_DIGEST]


def chosen(size: int, samples: int | None, seed: int) -> list[int]:
    """Choose the examples to send, in their order: all, or a random subset."""
    if samples is None or samples >= size:
        return list(range(size))
    return sorted(np.random.default_rng(seed).choice(size, samples, replace=False).tolist())


class Answers:
    """Answers to one example's requests. One that is missing, has NaN or is not the model's makes the example wrong."""

    def __init__(self, data: LabelledSet, number: int, example: Example) -> None:
        self._data, self._number, self._label, self._digest = data, number, example.label, digest_of(example)
        self._left = set(range(len(example.requests)))
        self._predictions: list[Any] = [None] * len(example.requests)
        self._error: str | None = None

    @property
    def complete(self) -> bool:
        """True once each request was answered or has failed."""
        return not self._left

    def answered(self, part: int, outputs: Sample) -> None:
        """Take a request's outputs, without the batch dimension."""
        if any(array.dtype.kind == "f" and np.isnan(array).any() for array in outputs.values()):
            self.failed(part, NOT_A_NUMBER)  # before it is decoded: the largest of NaN would be a letter
            return
        try:
            self._predictions[part] = self._data.prediction(outputs, self._label)
        except (IndexError, KeyError, ValueError, TypeError):
            self.failed(part, NOT_DECODABLE)
        self._left.discard(part)

    def failed(self, part: int, error: str) -> None:
        """Take a request's failure."""
        self._error = error
        self._left.discard(part)

    def scored_by(self, metric: Metric) -> Scored:
        """Score the answers with a metric. Raises InputDataError if the label does not fit the metric."""
        try:
            error, row = self._error, None
            if error is None:
                row = metric.row(self._predictions, self._label)
                error = None if _finite(row) else NOT_A_NUMBER
            return Scored(self._number, self._digest, metric.wrong(self._label) if error else row, error)
        except ValueError as error:
            raise InputDataError(
                f"example {self._number} of the data set does not fit {metric.figures[0]}: {error}",
                fix="lay out the data set, and the labels, that the model was trained for",
            ) from error


def _finite(row: Any) -> bool:
    """Return True if no number of a row, at any depth, is NaN or infinite."""
    if isinstance(row, float):
        return math.isfinite(row)
    if isinstance(row, dict):
        return all(map(_finite, row.values()))
    return not isinstance(row, list) or all(map(_finite, row))


@dataclass
class Scorer:
    """Keeps the example of each request, and adds complete examples to the journal.

    Raises InputDataError if a label does not fit the metric.
    """

    metric: Metric
    data: LabelledSet
    journal: Journal
    _open: dict[int, Answers] = field(default_factory=dict)

    def requests(self, examples: Sequence[int]) -> Iterator[tuple[int, int, Sample]]:
        """Yield the samples to send: the example's number, the request's place within it, and the sample."""
        for number in examples:
            example = self.data.example(number)
            self._open[number] = Answers(self.data, number, example)
            for part, sample in enumerate(example.requests):
                yield number, part, sample

    def answered(self, number: int, part: int, outputs: Sample) -> None:
        """Take a sample's outputs, without the batch dimension."""
        self._open[number].answered(part, outputs)
        self._complete(number)

    def failed(self, number: int, part: int, error: str) -> None:
        """Take a failure: the example is wrong."""
        self._open[number].failed(part, error)
        self._complete(number)

    def _complete(self, number: int) -> None:
        if self._open[number].complete:
            self.journal.add(self._open.pop(number).scored_by(self.metric))


def rows_of(outputs: Arrays, tensors: Sequence[Tensor]) -> Iterator[Sample]:
    """Split a batch's outputs into samples."""
    for index in range(len(outputs[tensors[0].name])):
        yield {tensor.name: outputs[tensor.name][index] for tensor in tensors}


def set_digest(scored: Sequence[Scored]) -> str:
    """Return the SHA-256 of the scored examples with their numbers: equal for equal data."""
    lines = (f"{entry.example} {entry.digest}\n" for entry in sorted(scored))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Convert values that JSON lacks: numpy's numbers, arrays to their digest, sets to sorted lists."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return value.item() if isinstance(value, np.generic) else sorted(value)
