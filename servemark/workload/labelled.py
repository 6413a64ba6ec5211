"""Labelled data: requests whose right answers are known."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from servemark.workload.tensor import Sample

Read = TypeVar("Read")


@dataclass(frozen=True)
class Example:
    """Unit that is scored: a request, or the two requests of a pair, and the right answer."""

    requests: tuple[Sample, ...]
    label: Any
    """Right answer, in the form that the workload's metric compares with."""


def first_output(outputs: Sample, _label: Any) -> Any:
    """Return the answer itself, for a metric that takes the model's first output as it is."""
    return next(iter(outputs.values()))


class InOrder(Generic[Read]):
    """Random access to a stream that can be begun anew; indices in ascending order need one pass only."""

    def __init__(self, begin: Callable[[], Iterator[Read]]) -> None:
        self._begin = begin
        self._stream, self._next = begin(), 0

    def __len__(self) -> int:
        """Count the elements, which reads them all."""
        return sum(1 for _ in self._begin())

    def __getitem__(self, index: int) -> Read:
        if index < self._next:
            self._stream, self._next = self._begin(), 0
        found = next(itertools.islice(self._stream, index - self._next, None))
        self._next = index + 1
        return found


@dataclass(frozen=True)
class LabelledSet:
    """A data set with its labels, whose examples can be read one by one.

    `example` raises InputDataError with file and line; `prediction` makes of a sample's outputs, and of the example's
    label, what the metric takes. Where it gives log-probabilities [frames, labels], `alphabet` says what each label
    stands for, '' for CTC's blank, and the text that is decoded from them is what the metric takes.
    """

    size: int
    example: Callable[[int], Example]
    prediction: Callable[[Sample, Any], Any] = first_output
    requests_per_example: int = 1
    alphabet: tuple[str, ...] = ()
