"""Schedules: equal for equal seeds, inside the duration, and distributed as their name says."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from loadgen.arrivals import ClosedLoop, Distribution, OpenLoop, schedule

RATES = [(0.5, 30.0), (100.0, 10.0), (2000.0, 3.0)]


def gaps_s(arrivals_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.diff(arrivals_ns, prepend=0) / 1e9


@pytest.mark.parametrize("distribution", list(Distribution))
@pytest.mark.parametrize(("rate", "duration_s"), RATES)
def test_ascending_inside_the_duration_and_equal_for_equal_seeds(
    distribution: Distribution, rate: float, duration_s: float
) -> None:
    first, again, other = (schedule(distribution, rate, duration_s, seed) for seed in (3, 3, 4))
    assert first.dtype == np.int64
    assert (np.diff(first) >= 0).all()
    assert first[0] >= 0
    assert first[-1] < duration_s * 1e9
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (distribution is Distribution.CONSTANT)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [50.0, 5000.0])
def test_poisson_gaps_are_exponential(rate: float, seed: int) -> None:
    gaps = gaps_s(schedule(Distribution.POISSON, rate, 10_000 / rate, seed))
    assert stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > 0.001
    # Neighbouring gaps know nothing of each other: three deviations of the correlation of independent pairs.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 3 / np.sqrt(len(gaps))


def test_the_ks_test_can_fail() -> None:
    gaps = gaps_s(schedule(Distribution.POISSON, 110, 100, 0))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 100)).pvalue < 1e-6
    gaps = gaps_s(schedule(Distribution.CONSTANT, 100, 100, 0))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 100)).pvalue < 1e-6


def test_poisson_counts_have_the_mean_and_the_variance_of_poisson() -> None:
    counts = [len(schedule(Distribution.POISSON, 100, 1, seed)) for seed in range(2000)]
    # four standard errors: sqrt(100 / 2000) of the mean, 100 * sqrt(2 / 2000) of the variance
    assert np.mean(counts) == pytest.approx(100, abs=4 * 0.224)
    assert np.var(counts) == pytest.approx(100, abs=4 * 3.2)


@pytest.mark.parametrize(
    ("rate", "duration_s", "count"), [(10, 1, 10), (3, 1, 3), (1, 2.5, 3), (0.2, 1, 1), (7, 3, 21)]
)
def test_constant_arrivals_are_exactly_spaced(rate: float, duration_s: float, count: int) -> None:
    arrivals = schedule(Distribution.CONSTANT, rate, duration_s, seed=0)
    assert len(arrivals) == count
    np.testing.assert_allclose(arrivals, np.arange(count) * 1e9 / rate, atol=1)


def test_constant_spacing_does_not_drift() -> None:
    arrivals = schedule(Distribution.CONSTANT, 300, 600, seed=0)
    assert abs(int(arrivals[-1]) - round((len(arrivals) - 1) * 1e9 / 300)) <= 1


def test_a_rate_too_low_for_the_duration_gives_no_poisson_arrival() -> None:
    assert len(schedule(Distribution.POISSON, 1e-6, 1.0, seed=0)) == 0


def test_open_loop_keeps_its_schedule_however_late_it_is_asked() -> None:
    loop = OpenLoop([0, 10, 10, 25], start_ns=1000)
    assert loop.wanted(in_flight=0, now=10**9) == 0
    assert [loop.pop() for _ in range(3)] == [1000, 1010, 1010]
    assert (loop.next_due(), loop.finished(10**9)) == (1025, False)
    loop.stop()
    assert (loop.next_due(), loop.finished(0)) == (None, True)


def test_closed_loop_fills_up_to_its_concurrency_until_its_time() -> None:
    loop = ClosedLoop(3, lambda now: now >= 100)
    assert loop.next_due() is None
    assert [loop.wanted(in_flight, now) for in_flight, now in itertools.product((0, 2, 3), (99, 100))] == [
        3, 0, 1, 0, 0, 0,
    ]  # fmt: skip
    assert (loop.finished(99), loop.finished(100)) == (False, True)
    loop.stop()
    assert loop.finished(0)
