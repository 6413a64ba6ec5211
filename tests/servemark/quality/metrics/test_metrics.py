"""Each metric against answers known by hand, and against the libraries of its field."""

import math
from typing import Any

import numpy as np
import pytest

from servemark.errors import OptionError
from servemark.quality.registry import metric_named, metrics
from servemark.workload import workloads


def values(name: str, *examples: tuple[Any, Any]) -> tuple[float, ...]:
    """The figures of (prediction, label) pairs."""
    metric = metric_named(name)
    return metric.values([metric.row([prediction], label) for prediction, label in examples])


def scores(*values: float) -> Any:
    return np.array(values, np.float32)


def test_every_labelled_workload_names_a_metric() -> None:
    for workload in workloads().values():
        if workload.labelled is not None:
            assert workload.quality.metric in metrics(), workload.name


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(OptionError, match="no metric 'beauty'"):
        metric_named("beauty")


def test_accuracy_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import top_k_accuracy_score

    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 8)).astype(np.float32), rng.integers(0, 8, 200)
    found = values("top-1", *zip(logits, labels.tolist(), strict=True))
    expected = [top_k_accuracy_score(labels, logits, k=k, labels=range(8)) for k in (1, 5)]
    assert found == pytest.approx(expected)


def test_of_equal_scores_the_first_class_wins_and_nan_is_wrong() -> None:
    assert values("accuracy", (scores(1, 1), 0), (scores(1, 1), 1)) == (0.5,)
    assert values("accuracy", (scores(math.nan, 1), 1)) == (0.0,)


def test_a_class_that_the_model_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="class 7 is none of the model's 3"):
        metric_named("accuracy").row([scores(1, 2, 3)], 7)


def test_hit_ratio_and_ndcg_by_hand() -> None:
    falling = np.arange(100, 0, -1).astype(np.float32)
    first, tenth, eleventh = ((falling, place) for place in (0, 9, 10))
    assert values("HR@10", first, tenth, eleventh) == pytest.approx((2 / 3, (1 + 1 / math.log2(11)) / 3))
    assert values("HR@10", (np.ones(100, np.float32), 0)) == (0.0, 0.0)  # all alike: the held-out one is last


def test_ndcg_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(1)
    predictions = rng.normal(size=(50, 30))
    relevant = np.zeros((50, 30))
    relevant[:, 4] = 1
    found = values("HR@10", *((each, 4) for each in predictions))
    assert found[1] == pytest.approx(ndcg_score(relevant, predictions, k=10))


def test_precision_by_hand() -> None:
    listed = np.array([5, 6, 7, 8, 9, 10, 11, 12, 13, 14], np.int32)
    found = values("precision@k", (listed, [5, 7, 99]), (listed, [1]))
    assert found == pytest.approx((0.2 / 2, 0.4 / 2, 2 / 3 / 2, (1 + 2 / 3) / 3 / 2))


@pytest.mark.parametrize("name", metrics())
def test_what_was_not_answered_is_never_better(name: str) -> None:
    metric = metric_named(name)
    assert len(metric.figures) == len(set(metric.figures))
    assert metric.figures[0] == name
