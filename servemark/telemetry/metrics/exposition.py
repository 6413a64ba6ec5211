"""A snapshot as Prometheus reads it: text by prometheus-client, the exact histograms in buckets.

A percentile that `histogram_quantile` reads from them lies in the bucket of the true one: within the bucket's width,
which is 10 % of it.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.catalog import HIGHEST_S, Kind, Metric, Snapshot, by_name

PER_DECADE = 26
"""Bounds grow by 10^(1/26), 9.3 %, rounded to three digits."""


@functools.cache
def bounds_s(lowest_s: float) -> tuple[float, ...]:
    """The upper bounds of the buckets but the last, which has none."""
    first, last = math.ceil(math.log10(lowest_s) * PER_DECADE), math.floor(math.log10(HIGHEST_S) * PER_DECADE)
    between = [float(f"{10 ** (step / PER_DECADE):.3g}") for step in range(first, last + 1)]
    return tuple(sorted({lowest_s, *between, HIGHEST_S}))


def cumulative(histogram: Histogram, bounds: tuple[float, ...]) -> list[int]:
    """Count the samples up to each bound, and all of them."""
    values_ms, counts = histogram.recorded()
    bucket = np.searchsorted(np.array(bounds), values_ms / 1e3, side="left")
    counted = np.bincount(bucket, counts, minlength=len(bounds) + 1)
    return [int(count) for count in np.cumsum(counted)]


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
    return content_type, encoder(Families(snapshot))


def by_metric(snapshot: Snapshot) -> Iterator[tuple[Metric, Histogram | list[tuple[tuple[str, ...], float]]]]:
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
