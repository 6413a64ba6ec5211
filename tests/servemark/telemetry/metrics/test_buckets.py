"""A percentile that Prometheus reads from the buckets lies as near to the result's as the docs say."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servemark.stats.histogram import Histogram
from servemark.telemetry.metrics.buckets import bounds_s, cumulative
from servemark.telemetry.metrics.catalog import HIGHEST_S, LOWEST_DELAY_S, LOWEST_S
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
