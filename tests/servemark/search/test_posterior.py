"""The search for the highest rate, against servers whose limit is known by theory."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadgen.load.arrivals import schedule
from servemark.documents.load import Distribution
from servemark.results.schema.details import ObjectiveStatus
from servemark.results.schema.header import reason_of
from servemark.search.points import Point
from servemark.search.posterior import (
    MAX_RUNS,
    MIN_RUNS_EACH,
    TOLERANCE,
    Bounds,
    MaxRate,
    Threshold,
    interrupted,
    lowest_rate,
    search,
)
from tests.support.queues import Case, Queue, simulated

LIMIT = 936.0
Measure = Callable[[float], Point]


def exact(rate: float) -> Point:
    """A run of a server without luck: the share of requests over its limit grows exponentially with the rate."""
    over = min(round(100 * math.exp(20 * (rate / LIMIT - 1))), 10_000)
    status: ObjectiveStatus = "met" if rate <= LIMIT else "missed"
    return Point(rate, latency_ms=rate / LIMIT, objective=status, over=over, requests=10_000, allowed=0.01)


def failing(above: float, *names: str, **more: Any) -> Measure:
    """Runs that these constraints fail above a rate, of the server without luck."""
    return lambda rate: Point(rate, frozenset(names), **more) if rate > above else exact(rate)


def check(found: MaxRate) -> None:
    """Check the properties of every outcome."""
    assert 0 < len(found.points) <= MAX_RUNS
    assert found.reason
    assert sum(each["runs"] for each in found.to_dict()["rates"]) == len(found.points)
    if found.best:
        assert found.best.met
        assert found.rate is not None
        assert found.above is None or found.above > found.best.rate
    else:
        assert found.rate is None
        assert reason_of(found.to_dict(), "rate") == found.reason
    if found.interval and found.interval[1]:
        assert found.interval[0] <= (found.rate or 0) <= found.interval[1]


@pytest.mark.parametrize("start", [100.0, 300.0, 800.0, LIMIT, 999.0, 1200.0, 20_000.0])
def test_the_limit_of_a_server_without_luck_is_found(start: float) -> None:
    found = search(exact, Bounds.around(start))
    check(found)
    assert found.rate == pytest.approx(LIMIT, rel=TOLERANCE)
    assert (found.bottleneck, found.confirmed) == ("server", True)
    assert "beyond it the server missed the objective" in found.reason


@pytest.mark.parametrize("seed", range(3))
def test_one_run_that_other_work_disturbed_sends_few_runs_to_low_rates(seed: int) -> None:
    luck = np.random.default_rng(seed)
    runs = itertools.count(1)

    def lucky(rate: float) -> Point:
        if next(runs) == 5:
            return Point(rate, frozenset({"other_load"}), objective="missed")
        met = luck.random() < 1 / (1 + (rate / LIMIT) ** 30)
        return Point(rate, objective="met" if met else "missed")

    found = search(lucky, Bounds.around(800.0))
    assert sum(point.rate < 0.6 * LIMIT for point in found.points) <= 2


@pytest.mark.parametrize("exponential", [True, False], ids=["M/M/1", "M/D/1"])
def test_the_truth_lies_within_five_percent_of_the_answer(exponential: bool) -> None:
    """Of a few searches; the slow test makes a hundred."""
    case = Case(Queue(4000, exponential=exponential), 0.005, 15)
    found = [simulated(case, np.random.default_rng(seed)) for seed in range(6)]
    for each in found:
        check(each)
        assert each.bottleneck == "server"
    assert sum(abs((each.rate or 0) / case.true_rate - 1) <= TOLERANCE for each in found) >= 5
    assert sum(each.confirmed for each in found) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("exponential", [True, False], ids=["M/M/1", "M/D/1"])
def test_the_truth_lies_within_five_percent_of_95_answers_in_a_hundred(exponential: bool) -> None:
    case = Case(Queue(4000, exponential=exponential), 0.005, 15)
    found = [simulated(case, np.random.default_rng(seed)) for seed in range(100)]
    assert sum(abs((each.rate or 0) / case.true_rate - 1) <= TOLERANCE for each in found) >= 95


def test_too_short_runs_have_a_wide_interval_and_it_is_said_what_would_do() -> None:
    found = simulated(Case(Queue(100, exponential=True), 0.1, 20), np.random.default_rng(1))
    check(found)
    assert not found.confirmed
    assert found.interval is not None
    assert found.interval[0] < 53.9 < (found.interval[1] or 0)
    assert "not known to 5%" in found.reason
    assert "times as long would do" in found.reason


@pytest.mark.parametrize("name", ["client_cpu", "schedule_delay_p99", "steady_state", "other_load"])
def test_it_goes_down_whatever_limited_the_first_rates(name: str) -> None:
    """The generator, the machine or nobody knows what keeps up to 300/s only; the first rate is 800/s."""
    found = search(failing(300.0, name, objective="missed" if name == "other_load" else "met"), Bounds.around(800.0))
    check(found)
    assert found.rate is not None
    assert 300 / (1 + 2 * TOLERANCE) < found.rate <= 300
    assert not found.confirmed
    assert found.interval == (found.rate, None)
    said = {
        "client_cpu": "the generator was late",
        "schedule_delay_p99": "the generator was late",
        "steady_state": "the runs were unsteady",
        "other_load": "other work took the machine",
    }
    assert found.reason.startswith(f"at higher rates {said[name]}, so the server's own limit is not known; met ")


def test_a_late_generator_does_not_excuse_a_server_that_is_too_slow_by_itself() -> None:
    found = search(failing(LIMIT, "schedule_delay_p99", objective="missed", conclusive=True), Bounds.around(800.0))
    assert (found.bottleneck, found.confirmed) == ("server", True)
    assert found.rate == pytest.approx(LIMIT, rel=TOLERANCE)


def test_what_is_met_beside_other_work_is_met() -> None:
    def measure(rate: float) -> Point:
        return Point(rate, frozenset({"other_load"}), objective=exact(rate).objective)

    found = search(measure, Bounds.around(800.0))
    assert found.bottleneck == "other work"
    assert found.rate is not None
    assert LIMIT / (1 + 2 * TOLERANCE) < found.rate <= LIMIT


@pytest.mark.parametrize("lowest", [67.0, 0.0, lowest_rate(99, 6)], ids=["67", "none", "many digits"])
def test_where_no_rate_is_met_the_lowest_one_was_tried(lowest: float) -> None:
    for name, limit in (("client_cpu", "generator"), ("steady_state", "unsteady"), ("achieved_rate", "server")):
        found = search(failing(0.0, name), Bounds.around(800.0, lowest))
        check(found)
        assert (found.best, found.bottleneck) == (None, limit)
        slowest = min(point.rate for point in found.points)
        assert slowest == pytest.approx(max(lowest, 8.0), rel=1e-5)
        assert sum(point.rate == slowest for point in found.points) <= MIN_RUNS_EACH
        assert f"not met at {slowest:,.4g}/s, the lowest rate tried: " in found.reason
        assert f"({name})" in found.reason


def test_always_met_uses_up_its_runs_and_says_so() -> None:
    found = search(lambda rate: Point(rate, latency_ms=1.0), Bounds.around(800.0), most_runs=6)
    check(found)
    assert len(found.points) == 6
    assert (found.bottleneck, found.confirmed, found.above) == ("runs", False, None)
    second, highest = sorted(point.rate for point in found.points)[-2:]
    assert found.rate == second  # two runs met it, or more than it
    assert highest > 800 * 1.4**5
    assert "6 runs were used up, and all were met" in found.reason


def test_bounds_are_kept_and_named_where_they_are_the_answer() -> None:
    inside = search(exact, Bounds(500.0, 2000.0))
    check(inside)
    assert inside.rate == pytest.approx(LIMIT, rel=TOLERANCE)
    below = search(exact, Bounds(200.0, 600.0))
    check(below)
    assert (below.rate, below.bottleneck, below.confirmed) == (600.0, "range", False)
    assert below.reason.startswith("600/s is the highest that was asked for")
    beyond = search(exact, Bounds(1500.0, 4000.0))
    check(beyond)
    assert (beyond.rate, beyond.bottleneck) == (None, "server")
    assert "not met at 1,500/s, the lowest rate tried" in beyond.reason
    for found in (inside, below, beyond):
        assert len(found.points) < 16
    assert all(500 <= point.rate <= 2000 for point in inside.points)


def test_one_lucky_run_and_one_hiccup_move_the_answer_little() -> None:
    times: dict[str, int] = {"lucky": 0, "hiccup": 0}

    def measure(rate: float) -> Point:
        if rate > 1.1 * LIMIT and not times["lucky"]:
            times["lucky"] = 1
            return Point(rate, latency_ms=1.0)
        if rate < LIMIT and not times["hiccup"]:
            times["hiccup"] = 1
            return Point(rate, frozenset({"schedule_delay_p99"}))
        return exact(rate)

    found = search(measure, Bounds.around(1200.0))
    check(found)
    assert found.rate == pytest.approx(LIMIT, rel=0.06)
    assert found.bottleneck == "server"


@pytest.mark.parametrize("name", ["completed", "server_alive", "output_agreement"])
def test_an_overload_that_breaks_the_run_is_too_high_a_rate(name: str) -> None:
    """The embedded Triton loses answers, or dies: the next run, slower, finds it alive."""
    found = search(failing(LIMIT, name, "error_rate", objective="missed"), Bounds.around(300.0))
    check(found)
    assert found.rate is not None
    assert {point.limit for point in found.points if not point.met} == {"broken"}
    assert found.bottleneck in {"server", "broken"}


def test_two_broken_runs_in_a_row_end_it() -> None:
    found = search(failing(0.0, "server_alive", objective="missed"), Bounds.around(800.0))
    check(found)
    assert (found.bottleneck, found.rate, len(found.points)) == ("broken", None, 2)
    assert "two runs in a row broke off" in found.reason
    assert "server_alive" in found.reason


@pytest.mark.parametrize("most_runs", range(1, 12))
def test_no_more_runs_than_allowed(most_runs: int) -> None:
    for measure in (exact, failing(0.0, "steady_state"), failing(0.0, objective="missed"), Point):
        found = search(measure, Bounds.around(800.0), most_runs=most_runs)
        check(found)
        assert len(found.points) <= most_runs


def test_a_search_that_is_cut_short_has_what_was_met() -> None:
    points = [exact(rate) for rate in (800.0, 1200.0, 900.0, 1000.0)]
    found = interrupted(points)
    check(found)
    # 900/s was met as well, once, and nothing above it.
    assert (found.rate, found.above, found.bottleneck, found.confirmed) == (800.0, 1000.0, "interrupted", False)


def test_a_run_at_the_lowest_rate_holds_enough_requests_whatever_the_seed() -> None:
    for percentile, needed in ((90.0, 100), (99.0, 1000)):
        rate = lowest_rate(percentile, 10.0)
        counts = [len(schedule(Distribution.POISSON, rate, 10.0, seed)) for seed in range(200)]
        assert needed <= min(counts) <= max(counts) < 2.5 * needed


def test_the_words_name_how_often_the_nearest_rates_were_met() -> None:
    found = search(exact, Bounds.around(800.0))
    nearest = {each["rate"]: each for each in found.to_dict()["rates"]}
    shown = [each for each in nearest.values() if f"at {each['rate']:,.4g}/s" in found.reason]
    assert len(shown) == 2
    first, second = sorted(shown, key=lambda each: each["rate"])
    assert f"met in {first['met']} of {first['runs']} runs at {first['rate']:,.4g}/s" in found.reason
    assert f"in {second['met']} of {second['runs']} at {second['rate']:,.4g}/s" in found.reason


def test_three_first_runs_beside_other_work_end_a_search_that_is_told_so() -> None:
    found = search(failing(0.0, "other_load"), Bounds.around(800.0), stop_when_busy=True)
    assert (len(found.points), found.bottleneck, found.confirmed) == (3, "other work", False)
    assert "other work disturbed each of the first 3 runs" in found.reason
    assert len(search(failing(0.0, "other_load"), Bounds.around(800.0)).points) > 3
    # One quiet run among the first three shows that the machine can be quiet.
    quiet = iter([False, True])

    def measure(rate: float) -> Point:
        return exact(rate) if next(quiet, False) else failing(0.0, "other_load")(rate)

    assert len(search(measure, Bounds.around(800.0), stop_when_busy=True).points) > 3


def test_a_lucky_run_is_not_quoted() -> None:
    missed = [Point(1601.0, objective="missed"), Point(1700.0, objective="missed")]
    lucky = Point(1903.0)
    found = interrupted([Point(1562.0), Point(1562.0), Point(1562.0), *missed, lucky])
    assert found.interval == (1562.0, None)
    assert "met by 4 runs at 1,562/s or above, by only 1 at 1,903/s" in found.reason
    assert (found.rate, found.above) == (1562.0, 1601.0)
    alone = interrupted([*missed, lucky])
    assert (alone.rate, alone.best) == (None, None)
    assert "no rate was met by more than one run" in alone.reason


P99 = 0.01


def test_before_any_run_it_is_the_prior() -> None:
    around = Threshold(1, 10_000, guess=100)
    assert around.quantile(0.5) == pytest.approx(100, rel=0.02)
    assert around.quantile(0.75) == pytest.approx(100 * 2 ** math.log(2), rel=0.03)
    anywhere = Threshold(100, 10_000)
    assert anywhere.quantile(0.5) == pytest.approx(1000, rel=0.02)


@pytest.mark.parametrize("queue", [Queue(1000, exponential=True), Queue(1000, exponential=False)], ids=lambda q: q.name)
def test_its_interval_holds_the_truth_and_shrinks(queue: Queue) -> None:
    """Twenty runs around the truth, which is nowhere told."""
    rng, limit_s = np.random.default_rng(4), 0.02
    true = queue.highest_rate(99, limit_s)
    held, widths = [], []
    for _ in range(6):
        found = Threshold(10, 10_000, guess=800)
        for factor in 2 * (0.5, 0.8, 0.9, 0.95, 1, 1, 1.05, 1.1, 1.2, 1.5):
            seen = queue.latencies_s(factor * true, 20, 1, rng)
            found.observe(factor * true, int((seen > limit_s).sum()), len(seen), P99)
        low, high = found.quantile(0.025), found.quantile(0.975)
        held.append(low <= true <= high)
        widths.append(high / low)
        assert found.quantile(0.5) == pytest.approx(true, rel=0.1)
        assert found.chance_below(low) == pytest.approx(0.025, abs=0.01)
    assert sum(held) >= 5
    assert max(widths) < 1.3
