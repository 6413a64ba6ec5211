"""Labelled data: requests whose right answers are known."""

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    requests_per_example: int | Sequence[int] = 1
    """Number of requests of every example, or of each."""
    alphabet: tuple[str, ...] = ()

    def requests_of(self, number: int) -> int:
        """Return the number of an example's requests."""
        each = self.requests_per_example
        return each if isinstance(each, int) else each[number]

    def first_request(self, number: int) -> int:
        """Return the place of an example's first request among those of all examples; of `size`, their number."""
        each = self.requests_per_example
        return number * each if isinstance(each, int) else self._firsts[number]

    def place_of(self, request: int) -> tuple[int, int]:
        """Return the example that a request belongs to, and the request's place within it."""
        each = self.requests_per_example
        if isinstance(each, int):
            return divmod(request, each)
        number = bisect.bisect_right(self._firsts, request) - 1
        return number, request - self._firsts[number]

    @cached_property
    def _firsts(self) -> list[int]:
        each = self.requests_per_example
        assert not isinstance(each, int)
        return list(itertools.accumulate(each, initial=0))
