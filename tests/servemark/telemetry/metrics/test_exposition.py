"""The text that Prometheus reads: its format, its samples, and a percentile from its buckets is the result's."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from servemark.figures.latency import LATENCY
from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics import catalog
from servemark.telemetry.metrics.catalog import HIGHEST_S, LOWEST_DELAY_S, LOWEST_S, Sample, Snapshot
from servemark.telemetry.metrics.exposition import bounds_s, cumulative, expose
from tests.support.quantiles import histogram_quantile

PERCENTILES = [50.0, 90.0, 99.0, 99.9]
WITHIN = 0.10


def histogram(*latencies_s: float) -> Histogram:
    made = Histogram()
    made.record(np.array([round(each * 1e9) for each in latencies_s], np.int64))
    return made


def prometheus_rank(q: float, count: int) -> int:
    """The sample that Prometheus looks for: in floating point, q times the count may lie just above a whole number."""
    return int(np.ceil(q * count))


latencies = st.lists(st.tuples(st.floats(LOWEST_S + 1e-6, HIGHEST_S), st.integers(1, 2000)), min_size=1, max_size=40)


@given(latencies, st.sampled_from(PERCENTILES))
@example([(0.0002010, 1), (60.0, 1)], 50.0)
@example([(0.02, 99), (0.5, 1)], 99.0)
def test_a_percentile_from_the_buckets_is_the_result_s_within_the_bounds(
    found: list[tuple[float, int]], percentile: float
) -> None:
    seen = histogram(*itertools.chain.from_iterable([value] * count for value, count in found))
    true_s = seen.at_rank(prometheus_rank(percentile / 100, seen.count)) / 1e3
    if prometheus_rank(percentile / 100, seen.count) == round(np.ceil(round(percentile / 100 * seen.count, 9))):
        assert true_s == seen.percentile(percentile) / 1e3
    bounds = bounds_s(LOWEST_S)
    found_s = histogram_quantile(percentile / 100, bounds, cumulative(seen, bounds))
    assert found_s == pytest.approx(true_s, rel=WITHIN)


@given(latencies)
def test_every_sample_is_counted(found: list[tuple[float, int]]) -> None:
    seen = histogram(*itertools.chain.from_iterable([value] * count for value, count in found))
    assert cumulative(seen, bounds_s(LOWEST_S))[-1] == seen.count


@pytest.mark.parametrize("lowest_s", [LOWEST_S, LOWEST_DELAY_S])
def test_the_bounds_grow_by_a_tenth_at_most(lowest_s: float) -> None:
    bounds = bounds_s(lowest_s)
    assert (bounds[0], bounds[-1]) == (lowest_s, HIGHEST_S)
    assert all(1 < after / before <= 1.1 + 1e-9 for before, after in itertools.pairwise(bounds))


def test_nothing_and_zero_have_buckets_too() -> None:
    assert cumulative(Histogram(), bounds_s(LOWEST_S))[-1] == 0
    assert cumulative(histogram(0.0, 0.0), bounds_s(LOWEST_S))[0] == 2


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
