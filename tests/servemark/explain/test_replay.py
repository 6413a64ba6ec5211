"""The replay against queueing theory, and against Triton's rules of batching one by one."""

import math

import numpy as np
import pytest

from servemark.explain.fixes import Replays
from servemark.explain.replay import replay
from servemark.explain.timeline import Setup, Times
from tests.support.explained import MS, Synthetic


def _poisson(rate: float, count: int, seed: int = 5) -> Times:
    found: Times = np.cumsum(np.random.default_rng(seed).exponential(1e9 / rate, count)).astype(np.int64)
    return found


@pytest.mark.parametrize("utilisation", [0.3, 0.7, 0.85])
def test_mean_wait_of_one_instance_is_pollaczek_and_khinchine(utilisation: float) -> None:
    queued = _poisson(100 * utilisation, 200_000)
    wait = replay(queued, Setup(1), lambda _, __: 10 * MS).start - queued
    assert wait.mean() / (10 * MS) == pytest.approx(utilisation / (2 * (1 - utilisation)), rel=0.05)


def test_mean_wait_of_several_instances_is_erlang_c() -> None:
    instances, load = 3, 2.4
    queued = _poisson(240, 200_000)
    services = np.random.default_rng(6).exponential(10 * MS, 300_000)
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
    "the delay counts from the oldest": (Setup(1, 8, 5 * MS), [0, 1, 4], [(5, 15), (5, 15), (5, 15)]),
    "two instances side by side": (Setup(2, 1), [0, 0, 0], [(0, 10), (0, 10), (10, 20)]),
}


@pytest.mark.parametrize("name", BATCHING)
def test_batches_are_formed_as_triton_forms_them(name: str) -> None:
    setup, queued, expected = BATCHING[name]
    found = replay(np.array(queued, dtype=np.int64) * MS, setup, lambda _, __: 10 * MS)
    assert [*zip(found.start // MS, found.end // MS, strict=True)] == expected


def test_predicted_p99_of_one_more_instance_is_that_of_a_run_with_it() -> None:
    now, more = Synthetic(rate=105), Synthetic(rate=105, setup=Setup(2))
    before, after = now.evidence(), more.evidence()
    replays = Replays(before, (before.sent.done - before.sent.due).astype(float))
    predicted = replays.p99_ms(Setup(2), replays.now())
    measured = float(np.percentile(after.sent.done - after.sent.due, 99)) / 1e6
    assert predicted == pytest.approx(measured, rel=0.25)
