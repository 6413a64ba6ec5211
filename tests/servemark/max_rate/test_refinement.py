"""Highest rates in rounds: found again by steps from where they were, and held against each other."""

from collections.abc import Callable

import pytest

from servemark.max_rate.refinement import rate_ratio, refine_rate
from servemark.max_rate.search import TOLERANCE, Point
from servemark.stats.ratios import ratio_of_repeats


def steps(limit: float) -> Callable[[float], Point]:
    return lambda rate: Point(rate, frozenset() if rate <= limit else frozenset({"slo"}))


@pytest.mark.parametrize("start", [50.0, 80.0, 97.0, 100.0, 103.0, 120.0])
def test_a_round_finds_the_highest_rate_near_its_start(start: float) -> None:
    rate, limited = refine_rate(steps(100.0), start)
    assert rate is not None
    assert 100.0 / (1 + TOLERANCE) < rate <= 100.0
    assert not limited


def test_a_round_ends_after_so_many_runs_that_missed() -> None:
    rates: list[float] = []

    def measure(rate: float) -> Point:
        rates.append(rate)
        return steps(10.0)(rate)

    assert refine_rate(measure, 100.0) == (None, False)
    assert len(rates) == 6
    assert refine_rate(lambda rate: Point(rate, frozenset({"server_alive"})), 100.0) == (None, False)


def test_one_hiccup_in_a_round_does_not_count_but_two_do() -> None:
    times: dict[float, int] = {}

    def hiccup(rate: float) -> Point:
        times[rate] = times.get(rate, 0) + 1
        return Point(rate, frozenset({"schedule_delay_p99"})) if times[rate] == 1 else steps(100.0)(rate)

    assert refine_rate(hiccup, 100.0) == (100.0, False)
    late = lambda rate: Point(rate, frozenset({"client_cpu"}) if rate > 100 else frozenset())  # noqa: E731
    assert refine_rate(late, 99.0) == (99.0, True)


def test_the_interval_of_rates_holds_their_resolution() -> None:
    same = rate_ratio([110.0, 110.0, 110.0], [100.0, 100.0, 100.0])
    assert same.low == pytest.approx(1.1 / 1.05)
    assert same.high == pytest.approx(1.1 * 1.05)
    plain = ratio_of_repeats([110.0, 115.0, 121.0], [100.0, 105.0, 100.0])
    wide = rate_ratio([110.0, 115.0, 121.0], [100.0, 105.0, 100.0])
    assert plain.low is not None
    assert wide.low is not None
    assert wide.low < plain.low
