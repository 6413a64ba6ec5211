"""Highest rates in rounds: found again by steps from where they were, and compared with each other."""

from collections.abc import Callable

import pytest

from servemark.errors import ExitCode
from servemark.results.schema.search import RateLimit
from servemark.search.points import Point
from servemark.search.posterior import TOLERANCE, MaxRate
from servemark.search.refinement import HighestRate, rate_ratio, refine_rate
from servemark.stats.ratios import ratio_of_repeats
from servemark.stats.unknown import unknown


def steps(limit: float) -> Callable[[float], Point]:
    return lambda rate: Point(rate, objective="met" if rate <= limit else "missed")


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


def searched(rate: float, bottleneck: RateLimit = "server") -> HighestRate:
    best = Point(rate)
    return HighestRate.of(MaxRate(best, rate, None, True, rate * 1.04, bottleneck, "met twice", (best,)), "max-rate-x")


def after_rounds(*capacities: float, start: float) -> HighestRate:
    rate = searched(start)
    for number, capacity in enumerate(capacities, start=1):
        rate.repeat(steps(capacity), number)
    return rate


def test_a_rate_that_was_not_found_again_has_no_ratio() -> None:
    first, lost = after_rounds(400, 410, 395, start=390), after_rounds(800, 100, start=790)
    for rate, capacity in zip(first.rounds, (400, 410, 395), strict=True):
        assert capacity / (1 + TOLERANCE) < rate <= capacity
    assert lost.reason == f"in round 2 no rate near {lost.rounds[0]:,.4g}/s was met"
    assert lost.against(first) == unknown(str(lost.reason))
    assert first.against(lost) == unknown(f"of the first engine: {lost.reason}")
    assert after_rounds(400, start=390).against(first) == unknown("needs 3 rounds, has 1")
    assert lost.rate == pytest.approx(lost.rounds[0])
    assert (first.exit_code, lost.exit_code) == (ExitCode.VALID, ExitCode.INVALID)
    never = MaxRate(
        None,
        None,
        None,
        False,
        10.0,
        "server",
        "not met at 10/s, the lowest rate tried",
        (Point(10.0),),
    )
    assert HighestRate.of(never, "max-rate-x").exit_code is ExitCode.SLO_MISSED


def test_a_rate_of_the_generator_is_none_of_the_server() -> None:
    assert searched(400, "generator").reason == "met twice"
    rate = searched(400)
    rate.repeat(lambda load: Point(load, frozenset({"client_cpu"}) if load > 410 else frozenset()), 1)
    assert rate.rounds == []
    assert rate.reason == "in round 1 the generator, not the server, was the limit, above 400/s"
    assert rate.rate == 400
