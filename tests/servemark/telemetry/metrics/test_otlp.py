"""Messages to an OpenTelemetry collector: the same metrics, and the spans of traced requests."""

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from servemark.documents.live import Live
from servemark.figures.latency import LATENCY
from servemark.telemetry.metrics.catalog import LOWEST_S, Span
from servemark.telemetry.metrics.exposition import bounds_s, cumulative
from servemark.telemetry.metrics.otlp import Collector
from servemark.telemetry.metrics.publisher import Publisher
from tests.servemark.telemetry.metrics.test_exposition import histogram
from tests.servemark.telemetry.metrics.test_process import SNAPSHOT
from tests.support.receiver import Receiver, metrics_of, receiver

SPAN = Span(0xABC, 0x12, 1_000_000_000, 1_000_500_000, 1_010_000_000, "timeout")


def spans_of(found: Receiver) -> list[Any]:
    """The spans of all requests."""
    requests = [
        ExportTraceServiceRequest.FromString(body) for _, path, _, body in found.requests if path == "/v1/traces"
    ]
    return [span for each in requests for resource in each.resource_spans for span in resource.scope_spans[0].spans]


def test_a_collector_has_the_same_metrics_and_the_spans_once() -> None:
    with receiver() as found, Publisher(Live(otlp=found.url)) as publisher:
        [sent] = publisher.finish(SNAPSHOT, 30, [SPAN])
        metrics, spans = metrics_of(found), spans_of(found)
    assert (sent["to"], sent["failed"]) == ("otlp", 0)
    requests = metrics["servemark_requests_total"]
    assert requests.sum.is_monotonic
    [point] = requests.sum.data_points
    attributes = {each.key: each.value.string_value for each in point.attributes}
    assert (point.as_double, attributes["outcome"], attributes["run"]) == (3, "ok", "mix/a")
    latency = metrics[LATENCY.metric]
    assert latency.unit == "s"
    [point] = latency.histogram.data_points
    assert (point.count, point.sum) == (3, pytest.approx(0.103))
    assert tuple(point.explicit_bounds) == bounds_s(LOWEST_S)
    expected = cumulative(histogram(0.001, 0.002, 0.1), bounds_s(LOWEST_S))
    assert list(itertools.accumulate(point.bucket_counts)) == expected
    [span] = spans
    assert (span.trace_id.hex(), span.span_id.hex()) == (f"{0xABC:032x}", f"{0x12:016x}")
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (SPAN.sent_ns, SPAN.done_ns)
    assert span.status.message == "timeout"


def collector(metrics: MetricExportResult) -> tuple[Collector, list[int]]:
    """A collector that answers so for metrics, and the ids of the spans that it takes."""
    found, taken = Collector("http://h:4318"), list[int]()

    def take(spans: list[Any]) -> SpanExportResult:
        taken.extend(span.context.span_id for span in spans)
        return SpanExportResult.SUCCESS

    found._metrics = cast(Any, SimpleNamespace(export=lambda _: metrics))
    found._traces = cast(Any, SimpleNamespace(export=take))
    return found, taken


def test_spans_are_sent_also_where_nobody_takes_the_metrics() -> None:
    found, taken = collector(MetricExportResult.FAILURE)
    found.take([SPAN])
    with pytest.raises(OSError, match="not taken"):
        found.send(SNAPSHOT)
    assert taken == [SPAN.span_id]


def test_spans_that_come_while_others_are_sent_are_sent_once() -> None:
    found, taken = collector(MetricExportResult.SUCCESS)

    def coming() -> Iterator[Span]:
        yield SPAN
        found.send(SNAPSHOT)
        yield SPAN._replace(span_id=0x13)

    found.take(coming())
    found.send(SNAPSHOT)
    assert taken == [0x12, 0x13]
