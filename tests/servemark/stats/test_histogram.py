"""The histogram against numpy and the HdrHistogram library, and the confidence intervals against simulation."""

import math
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from servemark.stats.histogram import MAX_US, Histogram
from servemark.stats.percentiles import CONFIDENCE, PERCENTILES

RELATIVE_ERROR = 0.0005
ROUNDING_NS = 500
"""Durations are counted in whole µs; half a µs is rounded up, which reaches this bound."""
COUNT = 20_011
"""A prime: no percentile falls on a whole rank, where numpy's rounding of 0.999 * n decides."""


def durations_ns(name: str, count: int = COUNT) -> npt.NDArray[np.int64]:
    rng = np.random.default_rng(7)
    drawn: dict[str, npt.NDArray[np.float64]] = {
        "lognormal": rng.lognormal(math.log(5e6), 1.2, count),
        "bimodal": np.where(rng.random(count) < 0.97, 2e6, 9e8) * rng.uniform(0.9, 1.1, count),
        "microseconds": rng.uniform(500, 90_000, count),
        "constant": np.full(count, 123_456_789.0),
        "minutes": rng.uniform(1e9, 3e12, count),
    }
    return drawn[name].astype(np.int64)


def assert_close(found_ms: float, exact_ns: int) -> None:
    """A percentile is a whole number of ns: as one it keeps a bound that it reaches, which fractions of ms do not."""
    assert abs(round(found_ms * 1e6) - exact_ns) <= max(ROUNDING_NS, RELATIVE_ERROR * exact_ns)


def histogram_of(*parts: npt.NDArray[np.int64]) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.record(part)
    return histogram


@pytest.mark.parametrize("name", ["lognormal", "bimodal", "microseconds", "constant", "minutes"])
def test_percentiles_are_numpys_within_the_error_bound(name: str) -> None:
    values = durations_ns(name)
    histogram = histogram_of(values)
    for percentile in (*PERCENTILES, 0.01, 1, 25, 100):
        assert_close(histogram.percentile(percentile), int(np.percentile(values, percentile, method="inverted_cdf")))
    assert (histogram.min_ns, histogram.max_ns, histogram.count) == (values.min(), values.max(), COUNT)
    assert histogram.mean_ms() == pytest.approx(values.mean() / 1e6, rel=1e-9)
    assert histogram.stdev_ms() == pytest.approx(values.std() / 1e6, rel=1e-6, abs=1e-3)


def test_equal_durations_do_not_deviate() -> None:
    """On any make of CPU, of which some add in an order whose rounding leaves a rest."""
    for milliseconds in (20, 0.3, 1100):
        histogram = Histogram()
        histogram.record(np.full(400, round(milliseconds * 1e6), dtype=np.int64))
        assert histogram.stdev_ms() == 0
    histogram.record(np.array([1_100_000_100], dtype=np.int64))
    assert histogram.stdev_ms() == 0
    histogram.record(np.array([1_100_100_000], dtype=np.int64))
    assert histogram.stdev_ms() == pytest.approx(0.1 / 402**0.5, rel=0.01)


@given(st.lists(st.integers(0, MAX_US * 1000), min_size=1, max_size=60), st.floats(0.1, 100))
@example([9500, 10_000], 1.0)
def test_any_percentile_of_any_sample_is_within_the_error_bound(values: list[int], percentile: float) -> None:
    histogram = histogram_of(np.array(values, np.int64))
    exact_ns = sorted(values)[math.ceil(round(len(values) * percentile / 100, 9)) - 1]
    assert_close(histogram.percentile(percentile), exact_ns)


def test_recording_in_parts_and_merging_are_the_same_as_recording_at_once() -> None:
    values = durations_ns("lognormal")
    whole, parts = histogram_of(values), histogram_of(*np.array_split(values, 13))
    merged = histogram_of(values[:5000])
    merged.merge(Histogram())
    merged.merge(histogram_of(values[5000:]))
    empty_first = Histogram()
    empty_first.merge(whole)
    for other in (parts, merged, empty_first):
        np.testing.assert_array_equal(other.counts, whole.counts)
        assert other.mean_ms() == pytest.approx(whole.mean_ms(), rel=1e-9)
        assert other.stdev_ms() == pytest.approx(whole.stdev_ms(), rel=1e-9)
        assert (other.count, other.min_ns, other.max_ns) == (whole.count, whole.min_ns, whole.max_ns)


def test_the_highest_value_saturates_but_the_maximum_stays_true() -> None:
    two_hours_ns = 2 * MAX_US * 1000
    histogram = histogram_of(np.array([1_000, two_hours_ns], np.int64))
    assert histogram.max_ns == two_hours_ns
    assert histogram.percentile(100) == pytest.approx(MAX_US / 1e3, rel=RELATIVE_ERROR)


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="clocks were mixed"):
        Histogram().record(np.array([5, -1], np.int64))


@pytest.mark.parametrize("name", ["lognormal", "minutes"])
def test_hdrhistogram_reads_what_is_encoded(name: str) -> None:
    values = durations_ns(name)
    histogram = histogram_of(values)
    decoded = HdrHistogram.decode(histogram.encode())
    assert decoded.get_total_count() == COUNT
    for percentile in PERCENTILES:
        # HdrHistogram reports a slot's highest value, a slot's width above ours at most.
        own_ms = histogram.percentile(percentile)
        assert decoded.get_value_at_percentile(percentile) / 1e3 == pytest.approx(own_ms, rel=2 * RELATIVE_ERROR)


def test_hdrhistogram_reads_the_edges() -> None:
    edges = histogram_of(np.array([0, 400, MAX_US * 1000, MAX_US * 1_000_000], np.int64))
    assert HdrHistogram.decode(edges.encode()).get_total_count() == 4


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_a_histogram_comes_back_from_its_encoding(count: int) -> None:
    original = histogram_of(durations_ns("lognormal", count))
    decoded = Histogram.decode(original.encode())
    assert decoded.count == original.count
    np.testing.assert_array_equal(decoded.counts, original.counts)
    if count:
        assert decoded.percentile(50) == pytest.approx(original.percentile(50), rel=RELATIVE_ERROR)
        assert decoded.mean_ms() == pytest.approx(original.mean_ms(), rel=1e-3)
        assert decoded.max_ns == pytest.approx(original.max_ns, rel=1e-3)


def test_what_is_no_histogram_is_refused() -> None:
    with pytest.raises(ValueError, match="no HdrHistogram"):
        Histogram.decode("not one")


@pytest.mark.parametrize(("percentile", "needed"), [(50, 20), (90, 100), (95, 200), (99, 1000), (99.9, 10_000)])
def test_an_unsupported_percentile_has_its_reason(percentile: float, needed: int) -> None:
    short, enough = (histogram_of(durations_ns("lognormal", count)) for count in (needed - 1, needed))
    assert short.no_percentile(percentile) == f"needs {needed} samples, has {needed - 1}"
    assert enough.no_percentile(percentile) is None


@pytest.mark.parametrize(("percentile", "count"), [(50, 20), (50, 1001), (90, 100), (95, 333), (99, 1000), (99, 2000)])
def test_the_interval_has_the_narrowest_ranks_that_cover(percentile: float, count: int) -> None:
    samples = histogram_of(np.arange(1, count + 1) * 1000)  # each is its own rank
    lower, upper = samples.independent_interval(percentile)
    below = binom(count, percentile / 100).cdf  # of the number of samples below the true percentile
    tail = (1 - CONFIDENCE) / 2
    first, last = round(lower * 1000), round(upper * 1000)
    assert below(first - 1) <= tail < below(first)
    assert below(last - 2) < 1 - tail <= below(last - 1)


def test_failed_samples_last_longer_than_every_other() -> None:
    """1.85 % of the requests failed or were slow: p99 is not 19 ms."""
    found = histogram_of(np.concatenate([np.full(9815, 19_000_000), np.full(90, 21_000_000)]))
    found.failed = 95
    assert found.percentile(99) == pytest.approx(21, rel=1e-3)
    assert found.count_above(20) == 185
    assert found.percentile(98) == pytest.approx(19, rel=1e-3)
    assert found.percentile(99.9) == math.inf
    assert found.no_percentile(99.9) == "beyond every answer: 95 of 10,000 requests failed"
    assert found.answered().percentile(99) == pytest.approx(19, rel=1e-3)


def test_failed_samples_are_kept_by_every_operation() -> None:
    found, other = histogram_of(np.full(10, 1000)), Histogram()
    other.failed = 3
    found.merge(other)
    assert Histogram.unpack(found.pack()).failed == pickle.loads(pickle.dumps(found)).failed == 3  # noqa: S301 - ours
    assert len(pickle.dumps(found)) < 1000, "its empty slots"
    assert (found.without(other).failed, found.answered().failed, found.total) == (0, 0, 13)
