"""A snapshot as Prometheus reads it: text by prometheus-client."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.buckets import bounds_s, cumulative
from servemark.telemetry.metrics.catalog import Kind, Metric, by_name
from servemark.telemetry.metrics.snapshot import Snapshot


class Families:
    """A snapshot as families of prometheus-client; a collector."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        """The families that have a sample."""
        run = self._snapshot.run_labels
        for metric, rows in by_metric(self._snapshot):
            if isinstance(rows, Histogram):
                yield _histogram(metric, rows, run)
                continue
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=[*run, *metric.labels])
            for labels, value in rows:
                family.add_metric([*run.values(), *labels], value)
            yield family


def expose(snapshot: Snapshot, accept: str) -> tuple[str, bytes]:
    """Return content type and body for a client that accepts this: OpenMetrics or Prometheus's own text."""
    encoder, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(snapshot))
    return content_type, encoder(registry)


def by_metric(
    snapshot: Snapshot,
) -> Iterator[tuple[Metric, Histogram | list[tuple[tuple[str, ...], float]]]]:
    """Group a snapshot by metric, in the catalog's order: a histogram, or labels and values."""
    for metric in by_name().values():
        if (histogram := snapshot.histograms.get(metric.name)) is not None:
            yield metric, histogram
        elif rows := [(each.labels, each.value) for each in snapshot.samples if each.name == metric.name]:
            yield metric, rows


def _histogram(metric: Metric, histogram: Histogram, run: dict[str, str]) -> HistogramMetricFamily:
    bounds = bounds_s(metric.lowest_s)
    counts = cumulative(histogram, bounds)
    buckets = [(floatToGoString(le), float(count)) for le, count in zip((*bounds, float("inf")), counts, strict=True)]
    family = HistogramMetricFamily(metric.name, metric.help, labels=list(run))
    family.add_metric(list(run.values()), buckets, histogram.sum_s)
    return family
