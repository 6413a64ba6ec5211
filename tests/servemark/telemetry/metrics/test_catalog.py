"""Names follow Prometheus's conventions, and what a run exposes is in the catalog."""

import re

import pytest

from servemark.telemetry.metrics.catalog import BY_NAME, METRICS, RUN_LABELS, Kind, Metric
from servemark.telemetry.metrics.snapshot import Sample, Snapshot


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"servemark_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert metric.help.endswith(".")
    assert not {*metric.labels} & {*RUN_LABELS, "le", "quantile"}
    assert not re.search("milli|micro|percent|kilo|mega", metric.name), "base units only"


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_a_sample_has_the_labels_of_its_metric() -> None:
    with pytest.raises(ValueError, match="labels of its own"):
        Sample.of(BY_NAME["servemark_requests_total"], 1, "ok")


def test_a_snapshot_is_the_same_on_the_other_side() -> None:
    snapshot = Snapshot({"run": "r"}, [Sample.of(BY_NAME["servemark_requests_backlog"], 3)])
    there = Snapshot.unpack(snapshot.pack())
    assert there.run_labels == snapshot.run_labels
    assert list(there.samples) == list(snapshot.samples)
