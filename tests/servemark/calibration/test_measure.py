"""The truth by the golden server's log: percentiles, the schedule of a stall, arrivals, failures."""

import numpy as np
import pytest

from loadgen.peers.programs import PeerFigures
from servemark.calibration.cases import CASES
from servemark.calibration.measure import compare
from tests.golden.behaviour import Behaviour
from tests.support.calibrated import NAMED, log, stalled
from tests.support.queues import Queue

HONEST = PeerFigures(100, {50: 0.0, 90: 0.0, 95: 495.0, 99: 895.0}, 0)


def test_a_stall_of_1_s_in_10_s_at_100_per_s() -> None:
    """The known answers: p95 0.5 s and p99 0.9 s, to half a gap."""
    found = compare(NAMED["stall"], "m", 1, HONEST, stalled(), 0.0)
    assert found["true_ms"] == pytest.approx({"p50": 0, "p95": 495, "p99": 895})
    assert found["error_ms"] == pytest.approx(dict.fromkeys(found["true_ms"], 0))
    assert found["true_ms"]["p95"] == pytest.approx(NAMED["stall"].theory_ms[95], abs=10)
    assert found["arrivals"] is not None
    assert found["arrivals"]["offset_p99_ms"] == pytest.approx(0, abs=1e-3)


def test_a_generator_that_waits_is_measured_by_the_schedule_it_was_asked_for() -> None:
    """Coordinated omission: the log has nothing of the requests that were not sent in the stall."""
    arrival = np.concatenate([np.arange(452) * 10.0, 5505 + np.arange(448) * 10.0])
    waited = log(arrival, [0.0] * 451 + [995.0] + [0.0] * 448)
    found = compare(NAMED["stall"], "m", 1, PeerFigures(90, {50: 0.1, 90: 0.2, 95: 0.2, 99: 0.3}, 0), waited, 0.0)
    assert found["true_ms"]["p99"] == pytest.approx(895)
    assert found["error_ms"]["p95"] == pytest.approx(0.2 - 495)
    assert found["arrivals"] is not None
    assert found["arrivals"]["offset_p99_ms"] > 400  # type: ignore[operator]


def test_a_closed_loop_is_held_against_what_the_server_did() -> None:
    took = np.linspace(4, 6, 500)
    reported = PeerFigures(500, {50: 5.1, 90: 5.9}, 3)
    found = compare(NAMED["resets"], "m", 1, reported, log(np.arange(510.0), [*took, *[0] * 10], 10), 0.5)
    assert found["true_ms"]["p50"] == pytest.approx(5, abs=0.01)
    assert found["error_ms"]["p50"] == pytest.approx(0.1, abs=0.01)
    assert found["error_ms"]["p99"] is None
    assert (found["failures_reported"], found["failures_true"], found["requests"]) == (3, 10, 510)
    assert found["requests_per_s"] == pytest.approx(1000)
    assert found["server_bound"] is True


@pytest.mark.parametrize(("poisson", "likely"), [(True, True), (False, False)])
def test_poisson_arrivals_are_known_from_others(poisson: bool, likely: bool) -> None:
    gaps = np.random.default_rng(3).exponential(10, 1000) if poisson else np.full(1000, 10.0)
    found = compare(NAMED["queue"], "m", 1, PeerFigures(100, {50: 5.0}, 0), log(np.cumsum(gaps), 5.0), 0.0)
    assert found["arrivals"] is not None
    assert (found["arrivals"]["ks_p"] > 0.01) == likely  # type: ignore[operator]


def test_a_question_before_the_load_is_not_an_arrival() -> None:
    arrivals = [0.0, *(700 + np.arange(1000) * 10.0)]
    found = compare(NAMED["stall"], "m", 1, HONEST, log(arrivals, 0.0), 0.0)
    assert found["arrivals"] is not None
    assert found["arrivals"]["offset_p99_ms"] == pytest.approx(0, abs=1e-3)


def test_nothing_that_came_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 requests came"):
        compare(NAMED["floor"], "m", 1, HONEST, log([], 0.0), 0.0)


def test_theory_of_the_queue_is_crommelins() -> None:
    queue = Queue(200, exponential=False)
    theory = next(case for case in CASES if case.name == "queue").theory_ms
    for percentile in (90.0, 95.0, 99.0):
        assert 1 - queue.share_over(100, theory[percentile] / 1e3) == pytest.approx(percentile / 100, abs=1e-4)


def test_what_an_m_d_1_queue_waits_is_crommelin_s() -> None:
    """Nobody waits in an idle share of the time; within one service time the distribution is (1 - rho) e^(rate t)."""
    queue = Queue(1.0, exponential=False)
    assert queue.share_over(0.5, 1.0) == pytest.approx(0.5)
    assert 1 - queue.share_over(0.5, 1.8) == pytest.approx(0.5 * np.exp(0.5 * 0.8))
    assert 1 - queue.share_over(0.5, 2.8) == pytest.approx(0.5 * (np.exp(0.9) - 0.5 * 0.8 * np.exp(0.5 * 0.8)))


@pytest.mark.parametrize("exponential", [True, False])
def test_a_simulated_run_is_the_queue(exponential: bool) -> None:
    queue = Queue(400, exponential=exponential)
    rate = queue.highest_rate(90, 0.01)
    assert queue.share_over(rate, 0.01) == pytest.approx(0.1)
    seen = queue.latencies_s(rate, 2000.0, 5.0, np.random.default_rng(1))
    assert np.mean(seen > 0.01) == pytest.approx(0.1, rel=0.05)
    assert seen.min() >= (0 if queue.exponential else 1 / 400 - 1e-9)


def test_the_golden_server_s_service_is_exponential_where_it_is_told_so() -> None:
    times = np.array([Behaviour(capacity_per_s=400, exponential=True).service_ns(n) for n in range(1, 4001)]) / 1e9
    assert times.mean() == pytest.approx(1 / 400, rel=0.05)
    assert np.mean(times > np.log(10) / 400) == pytest.approx(0.1, rel=0.15)
    assert abs(np.corrcoef(times[:-1], times[1:])[0, 1]) < 0.05
    assert Behaviour(capacity_per_s=400).service_ns(7) == 2_500_000
    assert Behaviour().service_ns(7) == 0
