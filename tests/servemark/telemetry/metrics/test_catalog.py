"""Names follow Prometheus's conventions, and what a run exposes is in the catalog."""

import re

import pytest

from servemark.figures.registry import registry
from servemark.telemetry.metrics.catalog import _STATE, RUN_LABELS, Kind, Metric, Sample, by_name


@pytest.mark.parametrize("metric", by_name().values(), ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"servemark_[a-z0-9_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert not metric.name.endswith(("_count", "_sum", "_bucket")), "a histogram's"
    assert metric.help.endswith(".")
    assert not {*metric.labels} & {*RUN_LABELS, "le", "quantile"}
    assert not re.search("milli|micro|percent|kilo|mega", metric.name), "base units only"


def test_no_figure_has_the_name_of_a_metric_of_the_runs_state() -> None:
    assert not {metric.name for metric in _STATE} & {figure.metric for figure in registry().values()}


def test_a_sample_has_the_labels_of_its_metric() -> None:
    with pytest.raises(ValueError, match="labels of its own"):
        Sample.of(by_name()["servemark_requests_total"], 1, "ok")
