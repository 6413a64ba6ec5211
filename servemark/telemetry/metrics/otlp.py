"""Exports snapshots, and the spans of traced requests, over OTLP (HTTP, protobuf) with OpenTelemetry's SDK.

The SDK's instruments cannot take a histogram that is counted already. Its data points can, and its exporters send them.
Histograms have the buckets that Prometheus reads. Source: OpenTelemetry metrics data model, "Histogram"; W3C Trace
Context.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as points
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from servemark import __version__
from servemark.errors import reason
from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import Kind, Metric, Snapshot, Span
from servemark.telemetry.metrics.exposition import bounds_s, by_metric, cumulative

RESOURCE = Resource({"service.name": "servemark", "service.version": __version__})
TIMEOUT_S = 2.0
"""Of connecting, and of each wait for an answer."""
BATCH = 1000
"""Spans in one request."""
SCOPE = InstrumentationScope("servemark", __version__)
_UNITS = {"seconds": "s", "bytes": "By", "watts": "W", "joules": "J", "celsius": "Cel", "hertz": "Hz", "ratio": "1"}


class Collector:
    """The collector at a URL, without its paths: what it is sent are the metrics, and the spans that have come."""

    def __init__(self, url: str) -> None:
        base = url.rstrip("/")
        self._metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=TIMEOUT_S)
        self._traces = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=TIMEOUT_S)
        self._words, self._begun_ns = _Words(), time.time_ns()
        self._spans: deque[Span] = deque()

    def take(self, spans: Iterable[Span]) -> None:
        """Have these spans sent with the next snapshot."""
        self._spans.extend(spans)

    def send(self, snapshot: Snapshot) -> None:
        """Send a snapshot and the spans. Raises OSError where they are not taken; such spans are lost."""
        self._words.said.clear()
        spans = [self._spans.popleft() for _ in range(len(self._spans))]  # others may come meanwhile
        data = metrics_data(snapshot, self._begun_ns, time.time_ns())
        taken = self._metrics.export(data) is points.MetricExportResult.SUCCESS
        found = [readable(snapshot.run_labels, span) for span in spans]
        batches = (found[first : first + BATCH] for first in range(0, len(found), BATCH))
        # Also where the metrics were refused: some take spans alone.
        traced = all(self._traces.export(batch) is SpanExportResult.SUCCESS for batch in batches)
        if not (taken and traced):
            raise OSError(next(iter(self._words.said), "it was not taken"))


def metrics_data(snapshot: Snapshot, begun_ns: int, now_ns: int) -> points.MetricsData:
    """A snapshot as the SDK's own data: cumulative since `begun_ns`."""
    run = {name: value for name, value in snapshot.run_labels.items() if value}
    metrics = [
        points.Metric(name=metric.name, description=metric.help, unit=_unit(metric), data=data)
        for metric, data in _data(snapshot, run, begun_ns, now_ns)
    ]
    scope = points.ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
    return points.MetricsData([points.ResourceMetrics(resource=RESOURCE, scope_metrics=[scope], schema_url="")])


def readable(run: Mapping[str, str], span: Span) -> ReadableSpan:
    """A request as the SDK's span: from its sending to its answer."""
    labels = {f"servemark.{name}": value for name, value in run.items() if value}
    return ReadableSpan(
        name="infer",
        context=SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)),
        resource=RESOURCE,
        attributes={**labels, "servemark.schedule_delay_ms": (span.sent_ns - span.scheduled_ns) / 1e6},
        kind=SpanKind.CLIENT,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.sent_ns,
        end_time=span.done_ns,
        instrumentation_scope=SCOPE,
    )


def _data(snapshot: Snapshot, run: dict[str, str], begun_ns: int, now_ns: int) -> Iterator[tuple[Metric, Any]]:
    since_begin = points.AggregationTemporality.CUMULATIVE
    for metric, rows in by_metric(snapshot):
        if isinstance(rows, Histogram):
            yield metric, points.Histogram([_buckets(metric, rows, run, begun_ns, now_ns)], since_begin)
            continue
        found = [
            points.NumberDataPoint(run | dict(zip(metric.labels, labels, strict=True)), begun_ns, now_ns, value)
            for labels, value in rows
        ]
        counter = metric.kind is Kind.COUNTER
        yield metric, points.Sum(found, since_begin, is_monotonic=True) if counter else points.Gauge(found)


def _buckets(
    metric: Metric, histogram: Histogram, run: dict[str, str], begun_ns: int, now_ns: int
) -> points.HistogramDataPoint:
    bounds = bounds_s(metric.lowest_s)
    return points.HistogramDataPoint(
        attributes=run,
        start_time_unix_nano=begun_ns,
        time_unix_nano=now_ns,
        count=histogram.count,
        sum=histogram.sum_s,
        bucket_counts=np.diff(cumulative(histogram, bounds), prepend=0).tolist(),
        explicit_bounds=bounds,
        min=histogram.min_ns / 1e9,
        max=histogram.max_ns / 1e9,
    )


def _unit(metric: Metric) -> str:
    words = metric.name.removesuffix("_total").rpartition("_")
    return _UNITS.get(words[2], "")


class _Words(logging.Handler):
    """Log handler that keeps the exporters' first message: they log why they failed, and return only that they did."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what lies behind an error, or the words."""
        values = record.args if isinstance(record.args, tuple) else ()
        errors = [reason(value) for value in values if isinstance(value, BaseException)]
        self.said.append(errors[0] if errors else record.getMessage())
