"""The bootstrap over examples: as wide as theory has it, equal for equal seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from servemark.quality.interval import intervals
from servemark.quality.metric import Row
from servemark.quality.metrics.accuracy import METRICS

TOP1 = METRICS[1]


def test_an_interval_of_a_share_is_about_two_standard_errors_wide() -> None:
    rows: list[Row] = [[float(index % 5 > 0), 1] for index in range(1000)]  # 80 % of them
    [found] = intervals(TOP1, rows, seed=0)
    assert found is not None
    error = (0.8 * 0.2 / 1000) ** 0.5
    assert found[0] == pytest.approx(0.8 - 1.96 * error, abs=0.004)
    assert found[1] == pytest.approx(0.8 + 1.96 * error, abs=0.004)
    assert intervals(TOP1, rows, seed=0) == [found]


class Median:
    """A metric that is no sum."""

    figures = ("median",)
    higher_is_better = True

    def row(self, predictions: Sequence[Any], label: Any) -> Row:  # noqa: ARG002
        return [predictions[0]]

    def wrong(self, label: Any) -> Row | None:  # noqa: ARG002
        return None

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        return (float(np.median([row[0] for row in rows])),)


def test_a_metric_that_is_no_sum_is_computed_of_drawn_rows() -> None:
    [found] = intervals(Median(), [[float(value)] for value in range(101)], seed=1)
    assert found is not None
    assert 30 < found[0] < 50 < found[1] < 70


def test_too_few_examples_have_none() -> None:
    assert intervals(TOP1, [[1.0, 1]] * 4, seed=0) == [None]
