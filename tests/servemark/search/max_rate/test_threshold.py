"""The posterior of a highest rate, against queues whose highest rate is known by theory."""

import math

import numpy as np
import pytest

from benchmarks.rig.queues import Queue
from servemark.search.max_rate.threshold import Threshold

P99 = 0.01


def test_before_any_run_it_is_the_prior() -> None:
    around = Threshold(1, 10_000, guess=100)
    assert around.quantile(0.5) == pytest.approx(100, rel=0.02)
    assert around.quantile(0.75) == pytest.approx(100 * 2 ** math.log(2), rel=0.03)
    anywhere = Threshold(100, 10_000)
    assert anywhere.quantile(0.5) == pytest.approx(1000, rel=0.02)


def test_the_next_rate_goes_out_by_steps_until_both_sides_are_known() -> None:
    found = Threshold(1, 1e6, guess=100)
    found.observe_side(100, above=False)
    assert 140 < found.quantile(0.5) < 180
    found = Threshold(1, 1e6, guess=100)
    found.observe_side(100, above=True)
    assert 55 < found.quantile(0.5) < 75


def test_one_hiccup_among_runs_that_agree_moves_it_little() -> None:
    found = Threshold(10, 10_000, guess=300)
    for rate in (300, 400, 450, 500, 600, 700):
        for _ in range(2):
            found.observe_side(rate, above=rate > 480)
    before = found.quantile(0.5)
    found.observe_side(200, above=True)
    assert found.quantile(0.5) == pytest.approx(before, rel=0.05)


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
