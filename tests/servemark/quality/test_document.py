"""Intervals over examples: Wilson's of shares, else a bootstrap, as wide as theory has it, equal for equal seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from servemark.quality.document import Interval, intervals
from servemark.quality.metrics import Metric, Row, metric_named

ACCURACY, HIT_RATIO = metric_named("accuracy"), metric_named("HR@10")


@pytest.mark.parametrize("right", [0, 1, 60, 80])
def test_a_share_has_wilson_s_interval(right: int) -> None:
    rows: list[Row] = [[float(index < right), 1] for index in range(80)]
    expected = binomtest(right, 80).proportion_ci(method="wilson")
    [found] = intervals(ACCURACY, rows, seed=0)
    assert found.method == "wilson"
    assert found.bounds == pytest.approx([expected.low, expected.high], abs=1e-12)


def test_scores_between_0_and_1_have_a_bootstrap_beside_the_share_that_stands_with_them() -> None:
    rows: list[Row] = [[1.0, 1 / (1 + index % 2), 1] for index in range(400)]  # all hit, by turns in the first place
    share, mean = intervals(HIT_RATIO, rows, seed=0)
    assert (share.method, mean.method) == ("wilson", "bootstrap")
    assert mean.bounds is not None
    error = 0.25 / 400**0.5
    assert mean.bounds == pytest.approx([0.75 - 1.96 * error, 0.75 + 1.96 * error], abs=0.004)
    assert intervals(HIT_RATIO, rows, seed=0) == [share, mean]


def test_examples_all_alike_that_are_no_share_tell_no_spread() -> None:
    rows: list[Row] = [[0.0, 0.0, 50.0, 1]] * 100
    assert intervals(metric_named("MSE"), rows, seed=0) == [Interval()] * 3


class Median(Metric):
    """A metric that is no sum."""

    figures = ("median",)

    def row(self, predictions: Sequence[Any], label: Any) -> Row:  # noqa: ARG002
        return [predictions[0]]

    def wrong(self, label: Any) -> Row | None:  # noqa: ARG002
        return None

    def values(self, rows: Sequence[Row]) -> tuple[float, ...]:
        return (float(np.median([row[0] for row in rows])),)


def test_a_metric_that_is_no_sum_is_computed_of_drawn_rows() -> None:
    [found] = intervals(Median(), [[float(value)] for value in range(101)], seed=1)
    assert found.bounds is not None
    low, high = found.bounds
    assert 30 < low < 50 < high < 70


def test_too_few_examples_have_none() -> None:
    assert intervals(ACCURACY, [[1.0, 1]] * 4, seed=0) == [Interval()]
