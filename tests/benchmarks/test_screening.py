"""The simulated servers by which the figure of a screen was chosen."""

import numpy as np
import pytest

from benchmarks.system.screening import Simulated

SERVER = Simulated(instances=2, max_batch=4, delay_s=0.002, unit_s=0.001, stalls=True)


@pytest.mark.parametrize("concurrency", [1, 6, 32])
def test_a_closed_loop_obeys_littles_law(concurrency: int) -> None:
    until_s = 20.0
    rows = SERVER.answer(until_s, [0.0] * concurrency, closed=True, rng=np.random.default_rng(0))
    assert len(rows) / until_s * rows[:, 1].mean() == pytest.approx(concurrency, rel=0.01)


def test_an_open_loop_answers_each_arrival_once_and_never_before_a_batch_takes() -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1 / 500, 2000))
    rows = SERVER.answer(float(arrivals[-1]) + 1, arrivals.tolist(), closed=False, rng=np.random.default_rng(2))
    assert sorted(rows[:, 0]) == arrivals.tolist()
    assert rows[:, 1].min() > 0


def test_a_rate_is_met_below_the_highest_one_and_not_above() -> None:
    highest = SERVER.highest_rate(2000, 99, 0.05, seed=0)
    assert SERVER.meets(highest * 0.8, 99, 0.05, seed=9)
    assert not SERVER.meets(highest * 1.5, 99, 0.05, seed=9)
