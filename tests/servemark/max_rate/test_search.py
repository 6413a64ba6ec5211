"""The search for the highest rate, against servers whose limit is known by formula."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadgen.load.arrivals import Distribution, schedule
from servemark.max_rate.search import MAX_RUNS, TOLERANCE, MaxRate, Point, lowest_rate, point_of, search
from servemark.results.schema.header import reason_of
from tests.support.results import objective_of

CAPACITY = 1000.0
LIMIT_MS = 50.0
# M/M/1: the time in system is exponential with rate mu - lambda, so that its p99 is ln(100) / (mu - lambda).
TRUE_RATE = CAPACITY - math.log(100) / (LIMIT_MS / 1e3)


def mm1(rate: float, factor: float = 1.0) -> Point:
    """A run against an M/M/1 server, without noise unless its latency is multiplied by some."""
    if rate >= CAPACITY:
        return Point(rate, frozenset({"achieved_rate", "steady_state"}), objective="missed")
    p99_ms = 1e3 * math.log(100) / (CAPACITY - rate) * factor
    return Point(rate, latency_ms=p99_ms, objective="met" if p99_ms <= LIMIT_MS else "missed")


class Runs:
    """Counts the runs of a `measure` that depends on how often a rate was tried."""

    def __init__(self, measure: Callable[[float, int], Point]) -> None:
        self._measure = measure
        self.rates: list[float] = []

    def __call__(self, rate: float) -> Point:
        self.rates.append(rate)
        return self._measure(rate, self.rates.count(rate))


def check(found: MaxRate) -> None:
    """What holds for every answer."""
    assert len(found.points) <= MAX_RUNS
    assert found.reason
    if found.best:
        assert found.best.met
        assert found.above is None or found.above > found.best.rate
    if found.confirmed:
        assert found.best
        assert sum(p.met for p in found.points if p.rate == found.best.rate) >= 2


@pytest.mark.parametrize("start", [0.01, 1.0, 300.0, 800.0, TRUE_RATE, 999.0, 1200.0, 50_000.0])
def test_the_limit_of_a_known_server_is_found_within_the_tolerance(start: float) -> None:
    found = search(mm1, start, most_runs=60)
    assert found.rate is not None
    assert TRUE_RATE / (1 + TOLERANCE) <= found.rate <= TRUE_RATE
    assert (found.confirmed, found.limited_by) == (True, "server")
    assert found.above is not None
    assert TRUE_RATE <= found.above <= found.rate * (1 + TOLERANCE)


def test_from_a_good_start_few_runs_are_enough() -> None:
    found = search(mm1, 0.8 * CAPACITY)
    check(found)
    assert found.confirmed
    assert len(found.points) <= 8


@pytest.mark.parametrize("seed", range(20))
def test_noise_moves_the_answer_by_no_more_than_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = search(lambda rate: mm1(rate, rng.uniform(0.8, 1.25)), 800.0)
    check(found)
    assert found.confirmed
    assert found.rate is not None
    # The rates at which the noisiest runs would be met: LIMIT = ln(100) / (mu - rate) * factor.
    lowest, highest = (CAPACITY - math.log(100) * factor / (LIMIT_MS / 1e3) for factor in (1.25, 0.8))
    assert lowest / (1 + TOLERANCE) <= found.rate <= highest


def test_a_lucky_run_does_not_stand() -> None:
    """At 900/s the first run is lucky, the second is not."""

    def measure(rate: float, times: int) -> Point:
        lucky = 895 < rate < 905 and times == 1
        return mm1(rate, 0.1 if lucky else 1.0)

    lucky = search(Runs(measure), 900.0)
    check(lucky)
    assert lucky.confirmed
    assert lucky.rate is not None
    assert lucky.rate == pytest.approx(TRUE_RATE, rel=0.06)

    only_once = Runs(lambda rate, times: mm1(rate, 1.0 if times == 1 else 100.0))
    never_twice = search(only_once, 800.0)
    check(never_twice)
    assert not never_twice.confirmed


def test_never_valid() -> None:
    found = search(lambda rate: Point(rate, latency_ms=80.0, objective="missed"), 800.0, lowest=67.0)
    check(found)
    assert (found.best, found.rate, found.confirmed, found.limited_by) == (None, None, False, "server")
    assert found.points[-1].rate == 67.0
    assert "not met at 67/s, the lowest rate tried (objective missed)" in found.reason
    assert reason_of(found.to_dict(), "rate") == found.reason


def test_never_valid_without_a_lowest_rate_ends_too() -> None:
    found = search(lambda rate: Point(rate, latency_ms=80.0, objective="missed"), 800.0)
    check(found)
    assert found.limited_by == "server"
    assert len(found.points) < MAX_RUNS


def test_always_valid_uses_up_its_runs_and_says_so() -> None:
    found = search(lambda rate: Point(rate, latency_ms=1.0), 800.0, most_runs=6)
    assert len(found.points) == 6
    assert (found.limited_by, found.confirmed, found.above) == ("runs", False, None)
    assert found.rate == 800 * 1.5**5
    assert "6 runs were used up" in found.reason


@pytest.mark.parametrize("name", ["client_cpu", "schedule_delay_p99"])
def test_a_generator_that_limits_ends_the_search(name: str) -> None:
    """The server would do 936/s, the generator only 700/s."""

    def measure(rate: float) -> Point:
        return Point(rate, frozenset({name}), objective="missed") if rate > 700 else mm1(rate)

    found = search(measure, 500.0)
    check(found)
    assert (found.limited_by, found.rate, found.confirmed) == ("generator", 500.0, False)
    assert "the generator, not the server, is the limit at 750/s" in found.reason
    assert "the server reaches at least 500/s" in found.reason
    # It was tried twice, and nothing after that.
    assert [p.rate for p in found.points] == [500.0, 750.0, 750.0]
    assert search(measure, 800.0).best is None


def test_one_hiccup_of_the_generator_does_not_end_the_search() -> None:
    def measure(rate: float, times: int) -> Point:
        return Point(rate, frozenset({"schedule_delay_p99"})) if times == 1 else mm1(rate)

    found = search(Runs(measure), 800.0)
    assert found.limited_by == "server"
    assert found.rate == pytest.approx(TRUE_RATE, rel=TOLERANCE)


def test_a_late_generator_does_not_excuse_a_server_that_is_too_slow_by_itself() -> None:
    def measure(rate: float) -> Point:
        point = mm1(rate)
        return point if point.valid else Point(rate, point.failed | {"schedule_delay_p99"}, conclusive=True)

    found = search(measure, 800.0)
    assert (found.limited_by, found.confirmed) == ("server", True)
    assert found.rate == pytest.approx(TRUE_RATE, rel=TOLERANCE)


def test_an_unsteady_run_is_made_once_more_and_then_counts() -> None:
    hiccup = Runs(lambda rate, times: Point(rate, frozenset({"steady_state"})) if times == 1 else mm1(rate))
    found = search(hiccup, 800.0)
    assert found.rate == pytest.approx(TRUE_RATE, rel=TOLERANCE)

    unsteady = search(lambda rate: Point(rate, frozenset({"steady_state"}) if rate > 500 else frozenset()), 800.0)
    check(unsteady)
    assert unsteady.confirmed
    assert unsteady.rate == pytest.approx(500, rel=TOLERANCE)


@pytest.mark.parametrize("name", ["completed", "server_alive", "output_agreement"])
def test_what_no_other_rate_would_fix_ends_the_search(name: str) -> None:
    def measure(rate: float) -> Point:
        return Point(rate, frozenset({name}), objective="missed") if rate > 900 else mm1(rate)

    found = search(measure, 800.0)
    check(found)
    assert (found.limited_by, found.rate, found.confirmed) == ("broken", 800.0, False)
    assert name in found.reason


@pytest.mark.parametrize("most_runs", range(1, 12))
def test_no_more_runs_than_allowed(most_runs: int) -> None:
    for measure in (
        Runs(lambda rate, _: mm1(rate)),
        Runs(lambda rate, _: Point(rate, frozenset({"steady_state"}))),
        Runs(lambda rate, _: Point(rate, objective="missed")),
        Runs(lambda rate, _: Point(rate)),
    ):
        found = search(measure, 800.0, most_runs=most_runs)
        assert len(measure.rates) == len(found.points) <= most_runs


def test_a_run_at_the_lowest_rate_holds_enough_requests_whatever_the_seed() -> None:
    for percentile, needed in ((90.0, 100), (99.0, 1000)):
        rate = lowest_rate(percentile, 10.0)
        counts = [len(schedule(Distribution.POISSON, rate, 10.0, seed)) for seed in range(200)]
        assert needed <= min(counts) <= max(counts) < 2.5 * needed


def result(**changes: Any) -> Any:
    """As much of a load result as a point is read from."""
    names = ("error_share", "achieved_rate", "schedule_delay_p99", "client_cpu", "steady_state", "server_alive")
    constraints: list[dict[str, Any]] = [{"name": n, "ok": n not in changes.get("failed", ())} for n in names]
    objective = changes.get("objective", "met")
    return {
        "scenario": {"requested_rate": 120.0},
        "verdict": {"constraints": constraints, "objective": objective, "objectives": [objective_of(objective)]},
        "limited_by": {"by": changes.get("by", "generator"), "evidence": ""},
    }


@pytest.mark.parametrize(
    ("changes", "generator_limits"),
    [
        ({"failed": ("schedule_delay_p99",)}, True),
        ({"failed": ()}, False),
        ({"failed": (), "objective": "missed"}, False),
        ({"failed": ("schedule_delay_p99",), "objective": "missed"}, True),
        ({"failed": ("schedule_delay_p99",), "objective": "missed", "by": "server"}, False),
        ({"failed": ("client_cpu",)}, True),
        ({"failed": ("client_cpu",), "objective": "missed", "by": "server"}, False),
    ],
)
def test_a_result_is_read_as_a_point(changes: dict[str, Any], generator_limits: bool) -> None:
    point = point_of(result(**changes), "there")
    assert (point.rate, point.latency_ms, point.directory) == (120.0, 60.0, "there")
    assert point.failed == frozenset(changes["failed"])
    assert point.objective == changes.get("objective", "met")
    assert point.met == (not changes["failed"] and point.objective == "met")
    assert point.generator_limits is generator_limits
    assert point.to_dict()["failed"] == sorted(changes["failed"])
