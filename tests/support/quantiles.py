"""`histogram_quantile` as Prometheus computes it (promql/quantile.go, 2.42), for classic and native histograms."""

from collections.abc import Sequence


def of_classic(q: float, bounds: Sequence[float], cumulative: Sequence[int]) -> float:
    """`bucketQuantile`: linear within the bucket; `cumulative` has one more, of the bucket without an upper bound."""
    rank = q * cumulative[-1]
    place = next((n for n, count in enumerate(cumulative[:-1]) if count >= rank), len(bounds))
    if place == len(bounds):
        return bounds[-1]
    start, end = (bounds[place - 1] if place else 0.0), bounds[place]
    before = cumulative[place - 1] if place else 0
    return start + (end - start) * (rank - before) / (cumulative[place] - before)


def of_native(
    q: float, schema: int, zero: tuple[float, int], spans: Sequence[tuple[int, int]], deltas: Sequence[int]
) -> float:
    """`histogramQuantile`: `zero` is the threshold and the count of the bucket around 0, here without a lower half."""
    numbers: list[int] = []
    for gap, length in spans:
        first = (numbers[-1] + 1 if numbers else 0) + gap
        numbers += range(first, first + length)
    counts: list[int] = []
    for delta in deltas:
        counts.append((counts[-1] if counts else 0) + delta)
    buckets = [(0.0, zero[0], zero[1])] if zero[1] else []
    growth = 2.0 ** (2.0**-schema)
    buckets += [(growth ** (n - 1), growth**n, count) for n, count in zip(numbers, counts, strict=True)]
    rank, count = q * sum(each[2] for each in buckets), 0
    for lower, upper, held in buckets:
        if count + held >= rank:
            return lower + (upper - lower) * (rank - count) / held
        count += held
    raise ValueError(f"no bucket has the sample {rank}")
