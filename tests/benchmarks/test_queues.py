"""Queues known by theory: against textbook figures, against their own simulation, and the golden server as one."""

import numpy as np
import pytest

from benchmarks.rig.queues import Queue
from tests.golden.behaviour import Behaviour

QUEUES = [Queue(400, exponential=True), Queue(400, exponential=False)]


def test_what_an_m_d_1_queue_waits_is_crommelin_s() -> None:
    """Nobody waits in an idle share of the time; within one service time the distribution is (1 - rho) e^(rate t)."""
    queue = Queue(1.0, exponential=False)
    assert queue.share_over(0.5, 1.0) == pytest.approx(0.5)
    assert 1 - queue.share_over(0.5, 1.8) == pytest.approx(0.5 * np.exp(0.5 * 0.8))
    assert 1 - queue.share_over(0.5, 2.8) == pytest.approx(0.5 * (np.exp(0.9) - 0.5 * 0.8 * np.exp(0.5 * 0.8)))


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_a_simulated_run_is_the_queue(queue: Queue) -> None:
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
