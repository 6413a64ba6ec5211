"""Labelled data: requests whose right answers are known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servemark.workload.tensor import Sample


@dataclass(frozen=True)
class Example:
    """What is scored as one: a request, or the two of a pair, and what their answers should have been."""

    requests: tuple[Sample, ...]
    label: Any
    """What the workload's metric compares with: its form is the metric's."""


def first_output(outputs: Sample) -> Any:
    """The answer itself, where a metric takes the model's first output as it is."""
    return next(iter(outputs.values()))


@dataclass(frozen=True)
class LabelledSet:
    """A data set with its labels, of which any example can be had without the others.

    `example` raises InputDataError with file and line; `prediction` makes of a sample's outputs what the metric takes.
    """

    size: int
    example: Callable[[int], Example]
    prediction: Callable[[Sample], Any] = first_output
    requests_per_example: int = 1
