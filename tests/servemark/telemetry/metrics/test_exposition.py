"""The text that Prometheus reads: in which format, and that it says what the snapshot says."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from servemark.figures.latency import LATENCY
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.exposition import expose
from servemark.telemetry.metrics.snapshot import Sample, Snapshot
from tests.servemark.telemetry.metrics.test_buckets import histogram

RUN = {"workload": "ranking", "engine": "onnxruntime", "run": 'a "run"\\'}
SNAPSHOT = Snapshot(
    RUN,
    [
        Sample.of(catalog.REQUESTS, 3, "ok", ""),
        Sample.of(catalog.REQUESTS, 1, "failed", "timeout"),
        Sample.of(catalog.IN_FLIGHT, 2),
    ],
    {LATENCY.metric: histogram(0.001, 0.002, 0.1)},
)
PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_2_42, "application/openmetrics-text"),
        ("text/plain;version=0.0.4", TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", TEXT),
        ("*/*", TEXT),
        ("", TEXT),
    ],
)
def test_the_form_is_the_one_asked_for(accept: str, content_type: str) -> None:
    assert expose(SNAPSHOT, accept)[0].startswith(content_type)


def test_the_text_has_every_sample() -> None:
    families = {each.name: each for each in text_string_to_metric_families(expose(SNAPSHOT, TEXT)[1].decode())}
    assert families.keys() == {
        "servemark_requests", "servemark_requests_in_flight", "servemark_request_latency_seconds"
    }  # fmt: skip
    requests = {(s.labels["outcome"], s.labels["kind"]): s.value for s in families["servemark_requests"].samples}
    assert requests == {("ok", ""): 3, ("failed", "timeout"): 1}
    for family in families.values():
        for sample in family.samples:
            assert sample.labels.items() >= {**RUN, "device": "", "scenario": "", "precision": ""}.items()
    latency = {(s.name.rpartition("_")[2], s.labels.get("le")): s.value for s in families[LATENCY.metric].samples}
    assert latency["count", None] == latency["bucket", "+Inf"] == 3
    assert latency["sum", None] == pytest.approx(0.103)
    assert latency["bucket", "0.0002"] == 0
