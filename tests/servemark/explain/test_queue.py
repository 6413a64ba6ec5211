"""The replay against queueing theory, and against Triton's rules of batching one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from servemark.explain.naming import Replays
from servemark.explain.queue import Setup, Usual, replay
from servemark.explain.timeline import Times
from tests.support.planted_runs import MS, Synthetic


def _poisson(rate: float, count: int, seed: int = 5) -> Times:
    found: Times = np.cumsum(np.random.default_rng(seed).exponential(1e9 / rate, count)).astype(np.int64)
    return found


@pytest.mark.parametrize("utilisation", [0.3, 0.7, 0.85])
def test_mean_wait_of_one_instance_is_pollaczek_and_khinchine(utilisation: float) -> None:
    queued = _poisson(100 * utilisation, 100_000)
    wait = replay(queued, Setup(1), lambda _, __: 10 * MS).start - queued
    assert wait.mean() / (10 * MS) == pytest.approx(utilisation / (2 * (1 - utilisation)), rel=0.05)


def test_mean_wait_of_several_instances_is_erlang_c() -> None:
    instances, load = 3, 2.4
    queued = _poisson(240, 100_000)
    services = np.random.default_rng(6).exponential(10 * MS, 150_000)
    taken = iter(services.tolist())
    wait = replay(queued, Setup(instances), lambda _, __: next(taken)).start - queued
    busy = load**instances / math.factorial(instances) * instances / (instances - load)
    delayed = busy / (sum(load**k / math.factorial(k) for k in range(instances)) + busy)
    assert wait.mean() / (10 * MS) == pytest.approx(delayed / (instances - load), rel=0.06)


BATCHING = {
    "none": (Setup(1, 1), [0, 0, 0], [(0, 10), (10, 20), (20, 30)]),
    "what waits is taken together": (Setup(1, 8), [0, 1, 2], [(0, 10), (10, 20), (10, 20)]),
    "up to the largest batch": (Setup(1, 2), [0, 1, 2, 3], [(0, 10), (10, 20), (10, 20), (20, 30)]),
    "a lone request waits for the delay": (Setup(1, 8, 5 * MS), [0], [(5, 15)]),
    "a full batch does not": (Setup(1, 2, 5 * MS), [0, 1], [(1, 11), (1, 11)]),
    "nor a preferred one": (Setup(1, 8, 5 * MS, (2,)), [0, 1, 2], [(1, 11), (1, 11), (11, 21)]),
    "the largest preferred one that waits": (Setup(1, 8, 5 * MS, (2, 4)), [0, 0, 0, 0], [(0, 10)] * 4),
    "the delay counts from the oldest": (Setup(1, 8, 5 * MS), [0, 1, 4], [(5, 15), (5, 15), (5, 15)]),
    "two instances side by side": (Setup(2, 1), [0, 0, 0], [(0, 10), (0, 10), (10, 20)]),
}


@pytest.mark.parametrize("name", BATCHING)
def test_batches_are_formed_as_triton_forms_them(name: str) -> None:
    setup, queued, expected = BATCHING[name]
    found = replay(np.array(queued, dtype=np.int64) * MS, setup, lambda _, __: 10 * MS)
    assert [*zip(found.start // MS, found.end // MS, strict=True)] == expected


def test_a_load_that_goes_on_leaves_no_batch_waiting() -> None:
    queued = np.array([0, 1, 12], dtype=np.int64) * MS
    found = replay(queued, Setup(1, 2, 5_000 * MS), lambda _, __: 10 * MS, endless=True)
    assert (found.start // MS).tolist() == [1, 1, 12]


FULL = Setup(1, 64, 2_000 * MS, (8,))
CHANGED = {
    "one more instance": (Synthetic(rate=105), Setup(2)),
    "no queue delay": (Synthetic(rate=30, setup=Setup(1, 64, 20 * MS)), Setup(1, 64)),
    "smaller batches than any that was executed": (Synthetic(rate=60, setup=FULL), Setup(1, 2, 2_000 * MS)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_predicted_p99_is_that_of_a_run_with_the_change(name: str) -> None:
    now, setup = CHANGED[name]
    before, after = now.evidence(), replace(now, setup=setup).evidence()
    replays = Replays(before, (before.sent.done - before.sent.due).astype(float))
    predicted = replays.under(setup)[1]
    assert predicted == pytest.approx(float(np.percentile(after.sent.done - after.sent.due, 99)) / 1e6, rel=0.25)


@pytest.mark.parametrize(
    ("sizes", "times", "at"),
    [
        ([4, 8], [4.0, 6.0], {1: 2.5, 4: 4.0, 6: 5.0, 16: 10.0}),  # others lie on the line
        ([8], [40.0], {1: 5.0, 4: 20.0, 16: 80.0}),  # one size alone is in proportion
        ([2, 4], [9.0, 8.0], {1: 9.0, 8: 8.0}),  # no batch takes less than a smaller one
    ],
)
def test_sizes_that_were_not_executed_follow_from_those_that_were(
    sizes: list[int], times: list[float], at: dict[int, float]
) -> None:
    usual = Usual(np.repeat(sizes, 10), np.repeat(times, 10))
    assert {size: usual.at(size) for size in at} == pytest.approx(at)
    assert usual.proportional is (len(sizes) == 1)


def test_sizes_that_hardly_differ_are_taken_in_proportion() -> None:
    usual = Usual(np.array([3, *[8] * 40]), np.full(41, 136.0))
    assert usual.at(1) == pytest.approx(136 / 3, rel=0.25)
    assert usual.proportional


def test_one_slow_execution_of_a_small_batch_says_not_what_it_usually_takes() -> None:
    usual = Usual(np.array([1, 2, *[8] * 40]), np.array([239.0, 59.0, *[145.0] * 40]))
    assert usual.at(1) <= 59
