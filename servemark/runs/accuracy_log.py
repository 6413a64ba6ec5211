"""MLPerf's accuracy mode: a labelled data set as LoadGen's library, and its accuracy log scored."""

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np

from loadgen.load.load_config import LoadConfig
from loadgen.mlperf.official_loadgen import read_accuracy_log
from loadgen.sut.channel import Answer, Payload
from loadgen.sut.target import Target
from servemark.errors import ResultError, parsing
from servemark.quality.document import score, weights_of
from servemark.quality.journal import Journal
from servemark.quality.scoring import NO_ANSWER, Scorer
from servemark.results.schema.score import QualityScore
from servemark.runs.labelled import Labels
from servemark.workload import Arrays, Sample, Tensor, stack


def to_bytes(outputs: Arrays, tensors: Sequence[Tensor]) -> bytes:
    """Write the first row of each output for the log, one .npy after the other."""
    content = io.BytesIO()
    for tensor in tensors:
        np.save(content, outputs[tensor.name][0], allow_pickle=False)
    return content.getvalue()


def from_bytes(content: bytes, tensors: Sequence[Tensor]) -> Sample:
    """Read the outputs again. Raises ValueError, EOFError."""
    file = io.BytesIO(content)
    return {tensor.name: np.load(file, allow_pickle=False) for tensor in tensors}


class LabelledLibrary(Sequence[Payload]):
    """One request for each of the examples' requests, made when LoadGen asks for it. Raises InputDataError."""

    def __init__(self, config: LoadConfig, target: Target, labels: Labels) -> None:
        self._data, self._inputs, self._encode = labels.data, config.workload.inputs, target.encoder()

    def __len__(self) -> int:
        return self._data.first_request(self._data.size)

    @overload
    def __getitem__(self, index: int) -> Payload: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Payload]: ...

    def __getitem__(self, index: int | slice) -> Payload | Sequence[Payload]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        number, part = self._data.place_of(index)
        sample = self._data.example(number).requests[part]
        return Payload(self._encode(stack([sample], self._inputs)), (), (number,))


def logged_by(config: LoadConfig) -> "partial[bytes]":
    """Return a function that keeps an answer's outputs for LoadGen's log."""
    return partial(_logged, config)


def _logged(config: LoadConfig, answer: Answer) -> bytes:
    tensors = config.workload.outputs
    return to_bytes(answer.arrays(tensors), tensors)


def score_log(config: LoadConfig, labels: Labels, logs: Path) -> QualityScore:
    """Score LoadGen's accuracy log; what it has no answer of is wrong. Raises ResultError, InputDataError."""
    answers = read_accuracy_log(logs)
    with Journal(logs) as journal:
        scorer = Scorer(labels.metric, labels.data, journal)
        for number, part, _ in scorer.requests(labels.examples):
            index = labels.data.first_request(number) + part
            if content := answers.get(index):
                with parsing(f"the answer to sample {index} in {logs}", ResultError, fix="run it again"):
                    answer = from_bytes(content, config.workload.outputs)
                scorer.answered(number, part, answer)
            else:
                scorer.failed(number, part, NO_ANSWER)
        return score(
            labels.metric,
            labels.asked,
            list(journal.scored.values()),
            weights=weights_of(config.workload, config.entry),
            source=labels.source,
            size=labels.data.size,
            samples=labels.samples,
            seed=config.seed,
            continued=0,
        )
