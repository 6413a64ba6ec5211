"""What a metric is: it makes a row of figures of each example, and the metric's figures of all rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Row = list[Any]
"""What one example tells, in JSON: it is kept on the disk until the last example is answered."""
Floats = npt.NDArray[np.float64]


class Metric(Protocol):
    """A measure of quality. `figures` names what it finds; the first is the metric itself."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Names, as workloads and reports give them."""

    @property
    def higher_is_better(self) -> bool:
        """Which way is good."""

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        """What an example tells whose requests were answered so, without NaN. A row that is not finite is a wrong one.

        Raises ValueError, naming it, where the label is none of this metric's.
        """

    def wrong(self, label: Any) -> Row | None:
        """What an example tells that was not answered: as wrong as can be. None where no answer is the worst one."""

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        """The figures of these examples, in the order of their names; NaN where the examples do not tell."""


class Summed(ABC):
    """A metric that follows from sums over examples: shares, error rates, means. Its rows have equally many numbers."""

    figures: tuple[str, ...]
    higher_is_better = True

    @abstractmethod
    def row(self, predictions: Sequence[Any], label: Any) -> Row: ...

    @abstractmethod
    def wrong(self, label: Any) -> Row | None: ...

    @abstractmethod
    def combine(self, sums: Floats) -> tuple[float, ...]:
        """The figures, of the rows' sums [K]."""

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        return self.combine(np.asarray(rows, np.float64).sum(axis=0))


class Means(Summed):
    """A metric whose figures are means over examples: a row holds each example's own.

    `shares` says that each example's figures lie between 0 and 1, so that where all are 0 or 1 their mean is a share.
    """

    shares = False

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        return [*self.scores(predictions[0], label), 1]

    @abstractmethod
    def scores(self, prediction: Any, label: Any) -> tuple[float, ...]:
        """The figures of one example."""

    def wrong(self, label: Any) -> Row | None:  # noqa: ARG002 - nothing is worth 0, whatever was right
        return [0.0] * len(self.figures) + [1]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        return tuple(float(total / sums[-1]) for total in sums[:-1])
