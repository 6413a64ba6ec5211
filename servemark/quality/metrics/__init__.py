"""Metrics: a metric makes a row of figures for each example, and its figures from all rows.

Every module has `METRICS` of one subject, and imports what is heavy in their methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from servemark.errors import OptionError
from servemark.plugins import modules_of

Row = list[Any]
"""Figures of one example, in JSON: kept on the disk until the last example is answered."""
Floats = npt.NDArray[np.float64]


class Metric(ABC):
    """A measure of quality. `figures` names its figures; the first is the metric itself."""

    figures: tuple[str, ...]
    higher_is_better = True

    @abstractmethod
    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        """Make the row of an example from its answers, which hold no NaN. A row that is not finite counts as wrong.

        Raises ValueError, which names the label, if the label does not fit this metric.
        """

    @abstractmethod
    def wrong(self, label: Any) -> Row | None:
        """Make the row of an example without an answer: the worst possible one. None if there is no worst answer."""

    @abstractmethod
    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        """Compute the figures of these examples, in the order of their names; NaN if the examples do not define one."""


class Summed(Metric):
    """A metric that follows from sums over examples: shares, error rates, means. All its rows have the same length."""

    @abstractmethod
    def combine(self, sums: Floats) -> tuple[float, ...]:
        """Compute the figures from the rows' sums [K]."""

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        return self.combine(np.asarray(rows, np.float64).sum(axis=0))


class Means(Summed):
    """A metric whose figures are means over examples: a row holds one example's figures.

    `shares` says that each example's figures lie between 0 and 1. If all of them are 0 or 1, their mean is a share.
    """

    shares = False

    def row(self, predictions: Sequence[Any], label: Any) -> Row:
        return [*self.scores(predictions[0], label), 1]

    @abstractmethod
    def scores(self, prediction: Any, label: Any) -> tuple[float, ...]:
        """Compute the figures of one example."""

    def wrong(self, label: Any) -> Row | None:  # noqa: ARG002 - nothing is worth 0, whatever was right
        return [0.0] * len(self.figures) + [1]

    def combine(self, sums: Floats) -> tuple[float, ...]:
        return tuple(float(total / sums[-1]) for total in sums[:-1])


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics by the name of their first figure, as `Quality.metric` of a workload gives it."""
    modules = modules_of(__name__).values()
    return {metric.figures[0]: metric for module in modules for metric in module.METRICS}


def metric_named(name: str) -> Metric:
    """Look up a metric. Raises OptionError."""
    if name not in metrics():
        raise OptionError(f"there is no metric {name!r}", fix=f"one of: {', '.join(sorted(metrics()))}")
    return metrics()[name]
