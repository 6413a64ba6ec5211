"""The histogram against numpy and the HdrHistogram library, and the confidence intervals against simulation."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from servemark.stats.histogram import MAX_US, Histogram
from servemark.stats.order_statistics import CONFIDENCE, dispersion, interval_ranks
from servemark.stats.percentiles import PERCENTILES, percentile_key, samples_needed

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
    summary = histogram.summary()
    assert (summary["min"], summary["max"], summary["count"]) == (values.min() / 1e6, values.max() / 1e6, COUNT)
    assert summary["mean"] == pytest.approx(values.mean() / 1e6, rel=1e-9)
    assert summary["stdev"] == pytest.approx(values.std() / 1e6, rel=1e-6, abs=1e-3)


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
        for key, value in whole.summary().items():
            if isinstance(value, float):
                assert dict(other.summary())[key] == pytest.approx(value, rel=1e-9), key
        assert (other.count, other.min_ns, other.max_ns) == (whole.count, whole.min_ns, whole.max_ns)


def test_a_merged_percentile_is_not_the_average_of_percentiles() -> None:
    fast, slow = np.full(900, 1_000_000, np.int64), np.full(100, 100_000_000, np.int64)
    merged = histogram_of(fast)
    merged.merge(histogram_of(slow))
    assert merged.percentile(90) == pytest.approx(1, rel=RELATIVE_ERROR)
    assert merged.percentile(95) == pytest.approx(100, rel=RELATIVE_ERROR)


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
    assert HdrHistogram.decode(Histogram().encode()).get_total_count() == 0


@pytest.mark.parametrize(("percentile", "needed"), [(50, 20), (90, 100), (95, 200), (99, 1000), (99.9, 10_000)])
def test_an_unsupported_percentile_is_none_with_its_reason(percentile: float, needed: int) -> None:
    assert samples_needed(percentile) == needed
    key = percentile_key(percentile)
    short: Any = histogram_of(durations_ns("lognormal", needed - 1)).summary()
    assert short[key] is None
    assert short[f"{key}_reason"] == f"needs {needed} samples, has {needed - 1}"
    assert key not in short["ci95"]
    enough: Any = histogram_of(durations_ns("lognormal", needed)).summary()
    lower, upper = enough["ci95"][key]
    assert lower <= enough[key] <= upper
    assert f"{key}_reason" not in enough


def test_an_empty_summary_has_a_reason_for_every_figure() -> None:
    summary: Any = Histogram().summary()
    figures = ["mean", "stdev", "min", "max", *map(percentile_key, PERCENTILES)]
    assert all(summary[key] is None and summary[f"{key}_reason"] for key in figures)
    assert (summary["count"], summary["ci95"]) == (0, {})


@pytest.mark.parametrize(("percentile", "count"), [(50, 25), (50, 400), (90, 300), (99, 1500)])
def test_the_interval_covers_the_true_percentile_as_often_as_it_says(percentile: float, count: int) -> None:
    rng, runs = np.random.default_rng(11), 1000
    truth_ms = -math.log(1 - percentile / 100)
    covered, widths = 0, []
    for _ in range(runs):
        lower, upper = histogram_of((rng.exponential(1e6, count)).astype(np.int64)).interval(percentile)
        # A slot may hold the truth and a bound at once.
        covered += lower <= truth_ms * (1 + RELATIVE_ERROR) and truth_ms * (1 - RELATIVE_ERROR) <= upper
        widths.append(upper - lower)
    three_deviations = 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)
    assert covered / runs >= CONFIDENCE - three_deviations
    # Discrete ranks make it wider than asked for, but not by much: an interval that says nothing would cover as well.
    share = percentile / 100
    density = (1 - share) * math.sqrt(count) / math.sqrt(share * (1 - share))
    assert np.mean(widths) < 1.6 * 2 * 1.96 / density


@pytest.mark.parametrize(("percentile", "count"), [(50, 20), (50, 1001), (90, 100), (95, 333), (99, 1000), (99, 2000)])
def test_the_interval_has_the_narrowest_ranks_that_cover(percentile: float, count: int) -> None:
    lower, upper = histogram_of(np.arange(1, count + 1) * 1000).interval(percentile)  # each sample is its own rank
    below = binom(count, percentile / 100).cdf  # of so many samples that lie below the true percentile
    tail = (1 - CONFIDENCE) / 2
    first, last = round(lower * 1000), round(upper * 1000)
    assert below(first - 1) <= tail < below(first)
    assert below(last - 2) < 1 - tail <= below(last - 1)


def queue_ms(requests: int, load: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Latencies of a stationary M/D/1 queue with a service time of 1 ms."""
    gaps = rng.exponential(1 / load, requests + 5000)
    waits = np.concatenate([[0.0], np.cumsum(1 - gaps)[:-1]])
    latencies: npt.NDArray[np.float64] = waits - np.minimum.accumulate(waits) + 1
    return latencies[5000:]


@pytest.mark.parametrize(("load", "percentile"), [(0.5, 99), (0.7, 50), (0.7, 99)])
def test_an_interval_that_knows_the_windows_covers_what_a_queue_makes(load: float, percentile: float) -> None:
    """Slow requests come together, so that n of them tell less than n independent ones."""
    rng, runs = np.random.default_rng(5), 200
    truth_ms = float(np.quantile(queue_ms(2_000_000, load, rng), percentile / 100))
    narrow = wide = 0
    for _ in range(runs):
        windows = [histogram_of((part * 1e6).astype(np.int64)) for part in np.split(queue_ms(10_000, load, rng), 10)]
        whole = Histogram()
        for window in windows:
            whole.merge(window)
        for known in (False, True):
            lower, upper = whole.interval(percentile, windows if known else [])
            covered = lower <= truth_ms * (1 + RELATIVE_ERROR) and truth_ms * (1 - RELATIVE_ERROR) <= upper
            narrow, wide = narrow + (covered and not known), wide + (covered and known)
    assert narrow / runs < 0.75
    assert wide / runs > 0.85


def test_windows_of_independent_samples_hardly_widen_the_interval() -> None:
    rng, wider, runs = np.random.default_rng(6), 0, 300
    for _ in range(runs):
        wider += dispersion(rng.binomial(1000, 0.1, 10).tolist(), [1000] * 10) > 1
    assert wider / runs == pytest.approx(0.2, abs=3 * math.sqrt(0.2 * 0.8 / runs))


def test_dispersion_of_windows() -> None:
    assert dispersion([], []) == dispersion([5, 50], [100, 100]) == 1  # too few windows
    assert dispersion([0] * 5, [100] * 5) == dispersion([100] * 5, [100] * 5) == 1  # nothing beyond, or all
    assert dispersion([10] * 5, [100] * 5) == 1
    # sum of squares 4 * 25 / 9, over 3; and Student's t of 3 degrees, 3.182, over 1.960
    assert dispersion([5, 15, 5, 15], [100] * 4) == pytest.approx(100 / 9 / 3 * (3.18245 / 1.95996) ** 2, rel=1e-4)
    all_in_one = dispersion([100, *[0] * 9], [1000] * 10)
    lower, upper = interval_ranks(10_000, 99, all_in_one)
    assert 1 <= lower < 9900 < upper


def test_more_samples_narrow_the_interval() -> None:
    lower_few, upper_few = histogram_of(durations_ns("lognormal", 500)).interval(50)
    lower_many, upper_many = histogram_of(durations_ns("lognormal", 50_000)).interval(50)
    assert upper_many - lower_many < (upper_few - lower_few) / 5
