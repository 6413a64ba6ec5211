"""Metrics: each is found in a result, or has no value."""

import pytest

from servemark.compare.history.metrics import METRICS, metric
from servemark.errors import OptionError
from tests.support.measured import evenly, load_result

FLAGS = ("--request-rate", "40", "--duration", "10", "--warmup", "1")


def test_a_metric_is_its_figure() -> None:
    result = load_result(FLAGS, evenly(40, 11, 0.02))
    assert metric("latency_p50").of(result) == result["metrics"]["latency_ms"]["p50"]
    assert metric("inferences_per_s").of(result) == 40
    assert metric("max_rate").of(result | {"max_rate": {"rate": 7.0}}) == 7
    for name in ("latency_p99", "joules_per_inference", "max_rate", "queue"):  # not known
        assert metric(name).of(result) is None
    assert metric("latency_mean").of({"metrics": None}) is None
    assert METRICS["requests_per_s"].higher_is_worse is False


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(OptionError, match="'speed' is unknown"):
        metric("speed")
