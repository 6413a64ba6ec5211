"""Distribution of latencies: by percentile on HdrHistogram's axis, and cumulated."""

from collections.abc import Mapping, Sequence

import numpy as np

from servemark.quantities import figure
from servemark.stats.histogram import Histogram
from servemark.views.blocks import Figure, Table
from servemark.views.drawing.axis import linear, logarithmic, percentiles
from servemark.views.drawing.plot import Plot

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
"""Rows of the table, as far as the samples reach."""
_POINTS = 160
Level = tuple[str, float]
"""A limit in words and in ms."""


def quantiles(histogram: Histogram, shares: Sequence[float]) -> list[float]:
    """Nearest-rank quantiles in ms."""
    cumulated = np.cumsum(histogram.counts)
    ranks = np.clip(np.ceil(np.round(np.array(shares) * histogram.count, 9)), 1, histogram.count)
    slots = np.searchsorted(cumulated, ranks)
    low, high = histogram.min_ns / 1e6, histogram.max_ns / 1e6
    return [min(max(Histogram.value_ms(int(slot)), low), high) for slot in slots]


def by_percentile(found: Mapping[str, Histogram], levels: Sequence[Level] = ()) -> Figure:
    """Latency by percentile; each further nine takes the same room, so that tails can be compared."""
    lines = {name: _tail(histogram) for name, histogram in found.items()}
    values = [ms for line in lines.values() for _, ms in line]
    most = max(histogram.count for histogram in found.values())
    plot = Plot(
        f"Latency by percentile: {', '.join(found)}",
        percentiles("percentile", most),
        logarithmic("ms", [*values, *(limit for _, limit in levels)]),
    )
    for number, (name, line) in enumerate(lines.items()):
        plot.line(line, name, number % 8)
    for words, limit in levels:
        plot.level(limit, words)
    return Figure.of(plot, "Latency by percentile", _table(found), note="HdrHistogram's axis: one more nine, one step.")


def cumulated(found: Mapping[str, Histogram], levels: Sequence[Level] = ()) -> Figure:
    """The share of requests within a latency."""
    shares = [number / _POINTS for number in range(_POINTS + 1)]
    lines = {name: list(zip(quantiles(each, shares), shares, strict=True)) for name, each in found.items()}
    values = [ms for line in lines.values() for ms, _ in line]
    plot = Plot(
        f"Share of requests within a latency: {', '.join(found)}",
        logarithmic("ms", [*values, *(limit for _, limit in levels)]),
        linear("share of requests", [0.0, 1.0]),
    )
    for number, (name, line) in enumerate(lines.items()):
        plot.line([(ms, share) for ms, share in line], name, number % 8)
    for words, limit in levels:
        plot.mark(limit, words)
    rows = [
        [figure(ms), *[f"{1 - each.count_above(ms) / each.count:.2%}" for each in found.values()]]
        for ms, _ in logarithmic("", values).ticks
    ]
    return Figure.of(plot, "Share of requests within a latency", Table(["within ms", *found], rows))


def _tail(histogram: Histogram) -> list[tuple[float, float]]:
    """Points up to the last percentile that a sample of its own tells."""
    last = np.log10(max(histogram.count, 10))
    shares = [1 - 10.0**-nines for nines in np.linspace(0, last, _POINTS)]
    return list(zip(shares, quantiles(histogram, shares), strict=True))


def _table(found: Mapping[str, Histogram]) -> Table:
    most = max(histogram.count for histogram in found.values())
    shares = [share for share in SHARES if (1 - share) * most >= 1]
    rows = []
    columns = {name: quantiles(histogram, shares) for name, histogram in found.items()}
    for number, share in enumerate(shares):
        known = [
            figure(columns[name][number]) if (1 - share) * each.count >= 1 else "-" for name, each in found.items()
        ]
        rows.append([f"{100 * share:.10g}%", *known])
    rows.append(["100%", *(figure(histogram.max_ns / 1e6) for histogram in found.values())])
    return Table(["percentile", *(f"{name} ms" for name in found)], rows)
