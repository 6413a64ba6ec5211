"""Labelled data: requests whose right answers are known."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from servemark.workload.tensor import Sample

Read = TypeVar("Read")


@dataclass(frozen=True)
class Example:
    """What is scored as one: a request, or the two of a pair, and what their answers should have been."""

    requests: tuple[Sample, ...]
    label: Any
    """What the workload's metric compares with: its form is the metric's."""


def first_output(outputs: Sample, _label: Any) -> Any:
    """The answer itself, where a metric takes the model's first output as it is."""
    return next(iter(outputs.values()))


class InOrder(Generic[Read]):
    """Any element of a stream that can be begun anew; one pass serves all that are asked for in ascending order."""

    def __init__(self, begin: Callable[[], Iterator[Read]]) -> None:
        self._begin = begin
        self._stream, self._next = begin(), 0

    def __len__(self) -> int:
        """How many there are: reads them all."""
        return sum(1 for _ in self._begin())

    def __getitem__(self, index: int) -> Read:
        if index < self._next:
            self._stream, self._next = self._begin(), 0
        found = next(itertools.islice(self._stream, index - self._next, None))
        self._next = index + 1
        return found


@dataclass(frozen=True)
class LabelledSet:
    """A data set with its labels, of which any example can be had without the others.

    `example` raises InputDataError with file and line; `prediction` makes of a sample's outputs, and of the example's
    label, what the metric takes. Where it gives log-probabilities [frames, labels], `alphabet` says what each label
    stands for, '' for CTC's blank, and the text that is decoded from them is what the metric takes.
    """

    size: int
    example: Callable[[int], Example]
    prediction: Callable[[Sample, Any], Any] = first_output
    requests_per_example: int = 1
    alphabet: tuple[str, ...] = ()
