"""A snapshot as Prometheus reads it: text by prometheus-client, or protobuf with native histograms beside classic ones.

prometheus-client (0.26) has no protobuf, and its text has no native histograms. Source: metrics.proto of
io.prometheus.client; Prometheus's documentation, "Exposition formats" and "Native histograms".
"""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from google.protobuf.proto import serialize_length_prefixed
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from servemark.protobuf import Messages
from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.buckets import SCHEMA, ZERO_THRESHOLD_S, bounds_s, classic, native
from servemark.telemetry.metrics.catalog import Kind, Metric, by_name
from servemark.telemetry.metrics.snapshot import Snapshot

PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_ASKED = {"proto": "io.prometheus.client.metricfamily", "encoding": "delimited"}
_TYPES = {Kind.COUNTER: 0, Kind.GAUGE: 1, Kind.HISTOGRAM: 4}

_messages = Messages(
    "io.prometheus.client",
    {
        "LabelPair": "name string 1, value string 2",
        "Gauge": "value double 1",
        "Counter": "value double 1",
        "Bucket": "cumulative_count uint64 1, upper_bound double 2",
        "BucketSpan": "offset sint32 1, length uint32 2",
        "Histogram": (
            "sample_count uint64 1, sample_sum double 2, bucket Bucket* 3, schema sint32 5, zero_threshold double 6, "
            "zero_count uint64 7, positive_span BucketSpan* 12, positive_delta sint64* 13"
        ),
        "Metric": "label LabelPair* 1, gauge Gauge 2, counter Counter 3, histogram Histogram 7",
        "MetricFamily": "name string 1, help string 2, type int32 3, metric Metric* 4",
    },
)
_message, parse = _messages.message, _messages.parse


class Families:
    """A snapshot as families of prometheus-client; a collector."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        """The families that have a sample."""
        run = self._snapshot.run_labels
        for metric, rows in by_metric(self._snapshot):
            if isinstance(rows, Histogram):
                yield _classic_family(metric, rows, run)
                continue
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=[*run, *metric.labels])
            for labels, value in rows:
                family.add_metric([*run.values(), *labels], value)
            yield family


def expose(snapshot: Snapshot, accept: str) -> tuple[str, bytes]:
    """Content type and body for who accepts this (RFC 9110, section 12.5.1)."""
    if _prefers_protobuf(accept):
        return PROTOBUF, protobuf(snapshot)
    encoder, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(snapshot))
    return content_type, encoder(registry)


def protobuf(snapshot: Snapshot) -> bytes:
    """The families as messages, each with its length before it."""
    stream = BytesIO()
    run = snapshot.run_labels
    for metric, rows in by_metric(snapshot):
        family = _message("MetricFamily", name=metric.name, help=metric.help, type=_TYPES[metric.kind])
        if isinstance(rows, Histogram):
            family.metric.append(_message("Metric", label=_pairs(run), histogram=_both(rows, metric)))
        else:
            kind, field = ("Counter", "counter") if metric.kind is Kind.COUNTER else ("Gauge", "gauge")
            for labels, value in rows:
                pairs = _pairs(run | dict(zip(metric.labels, labels, strict=True)))
                family.metric.append(_message("Metric", label=pairs, **{field: _message(kind, value=value)}))
        serialize_length_prefixed(family, stream)
    return stream.getvalue()


def by_metric(
    snapshot: Snapshot,
) -> Iterator[tuple[Metric, Histogram | list[tuple[tuple[str, ...], float]]]]:
    """Group a snapshot by metric, in the catalog's order: a histogram, or labels and values."""
    for metric in by_name().values():
        if (histogram := snapshot.histograms.get(metric.name)) is not None:
            yield metric, histogram
        elif rows := [(each.labels, each.value) for each in snapshot.samples if each.name == metric.name]:
            yield metric, rows


def _classic_family(metric: Metric, histogram: Histogram, run: dict[str, str]) -> HistogramMetricFamily:
    bounds = bounds_s(metric.lowest_s)
    counts = classic(histogram, bounds)
    buckets = [(floatToGoString(le), float(count)) for le, count in zip((*bounds, float("inf")), counts, strict=True)]
    family = HistogramMetricFamily(metric.name, metric.help, labels=list(run))
    family.add_metric(list(run.values()), buckets, histogram.sum_s)
    return family


def _both(histogram: Histogram, metric: Metric) -> Any:
    """One message with both kinds of buckets; the classic one without an upper bound is the count."""
    bounds = bounds_s(metric.lowest_s)
    counts = classic(histogram, bounds)[:-1]
    exponential = native(histogram)
    return _message(
        "Histogram",
        sample_count=histogram.count,
        sample_sum=histogram.sum_s,
        bucket=[_message("Bucket", cumulative_count=n, upper_bound=le) for le, n in zip(bounds, counts, strict=True)],
        schema=SCHEMA,
        zero_threshold=ZERO_THRESHOLD_S,
        zero_count=exponential.zero_count,
        positive_span=[_message("BucketSpan", offset=gap, length=length) for gap, length in exponential.spans],
        positive_delta=exponential.deltas,
    )


def _pairs(labels: dict[str, str]) -> list[Any]:
    # Prometheus takes labels in the order of their names.
    return [_message("LabelPair", name=name, value=value) for name, value in sorted(labels.items())]


def _prefers_protobuf(accept: str) -> bool:
    """Return True if the client prefers protobuf to text, or accepts both equally."""
    asked = [_media_range(part) for part in accept.split(",")]
    quality = max((q for kind, parameters, q in asked if _is_protobuf(kind, parameters)), default=0.0)
    others = (q for kind, parameters, q in asked if not _is_protobuf(kind, parameters))
    return quality > 0 and quality >= max(others, default=0.0)


def _is_protobuf(kind: str, parameters: dict[str, str]) -> bool:
    return kind == "application/vnd.google.protobuf" and all(parameters.get(k) == v for k, v in _ASKED.items())


def _media_range(text: str) -> tuple[str, dict[str, str], float]:
    """Type, parameters and quality of one part of an Accept field; a quality that is not a number is 0."""
    kind, *rest = (part.strip().lower() for part in text.split(";"))
    parameters = {name.strip(): value.strip(' "') for name, _, value in (part.partition("=") for part in rest)}
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return kind, parameters, quality
