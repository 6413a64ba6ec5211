"""`histogram_quantile` as Prometheus computes it (promql/quantile.go, 2.42)."""

from collections.abc import Sequence


def histogram_quantile(q: float, bounds: Sequence[float], cumulative: Sequence[int]) -> float:
    """`bucketQuantile`: linear within the bucket; `cumulative` has one more, of the bucket without an upper bound."""
    rank = q * cumulative[-1]
    place = next((n for n, count in enumerate(cumulative[:-1]) if count >= rank), len(bounds))
    if place == len(bounds):
        return bounds[-1]
    start, end = (bounds[place - 1] if place else 0.0), bounds[place]
    before = cumulative[place - 1] if place else 0
    return start + (end - start) * (rank - before) / (cumulative[place] - before)
