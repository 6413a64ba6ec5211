"""The engine without a server: schedule and accounting as for a server, and one engine's calls never overlap."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from loadgen.driver.connections import MS
from loadgen.load.arrivals import Arrivals, ClosedLoopArrivals, OpenLoopArrivals
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Outcome
from loadgen.targets.in_process import EngineThreads, InProcessTarget
from servemark.workload import Arrays, get
from tests.golden.load import TargetLoad, constant_ns
from tests.support.load_config import config

TINY = "ranking_tiny"
WORKLOAD = get(TINY)
DEADLINE_S = 30.0


@dataclass
class FakeEngine:
    """Answers zeros after `before` was called; notes who called it and with what."""

    before: Callable[[Arrays], object] = lambda _inputs: None
    name: str = "fake"
    device: str = "cpu"
    provider: str = "none"
    scalars: tuple[str, ...] = ()
    calls: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    inside: int = 0
    overlapped: bool = False

    def run(self, inputs: Arrays) -> Arrays:
        self.inside += 1
        self.overlapped |= self.inside > 1
        self.threads.add(threading.get_ident())
        try:
            self.calls.append(int(next(iter(inputs.values()))[0].sum()))
            self.before(inputs)
            batch = len(next(iter(inputs.values())))
            return {t.name: np.zeros((batch, *t.shape), t.dtype) for t in WORKLOAD.outputs}
        finally:
            self.inside -= 1


def _itself(engine: Any) -> Any:
    return engine


def drive(
    engines: list[Any],
    arrivals: Arrivals,
    *,
    load: LoadConfig | None = None,
    timeout_s: float = DEADLINE_S,
    tick: Callable[[list[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Every outcome, in the order of the schedule; `tick` sees those that there are, about every 5 ms."""
    with EngineThreads([partial(_itself, engine) for engine in engines]) as threads:
        target = InProcessTarget(load or config(TINY), threads, {})
        sent = TargetLoad(target, 50, connect=50, timeout_s=timeout_s)
        sent.tick = lambda _: tick(sent.outcomes)
        sent.drive(arrivals)
    return sorted(sent.outcomes, key=lambda outcome: outcome.scheduled)


def soon(arrivals_ns: list[int]) -> OpenLoopArrivals:
    return OpenLoopArrivals(arrivals_ns, time.monotonic_ns() + 20 * MS)


def test_an_answer_without_a_batch_dimension_is_judged_by_its_whole_shape() -> None:
    """The second engine answers as if there were one."""

    class Single(FakeEngine):
        def run(self, inputs: Arrays) -> Arrays:
            super().run(inputs)
            return {tensor.name: np.zeros(tensor.shape, tensor.dtype) for tensor in WORKLOAD.outputs}

    load = replace(config(TINY), workload=replace(WORKLOAD, max_batch=0))
    for engine, error in ((Single(), None), (FakeEngine(), "wrong_shape")):
        assert {outcome.error for outcome in drive([engine], soon([0] * 3), load=load)} == {error}


@pytest.mark.parametrize("instances", [1, 3])
def test_as_many_run_side_by_side_as_there_are_instances(instances: int) -> None:
    together = threading.Barrier(instances, timeout=DEADLINE_S)
    engines = [FakeEngine(lambda _: together.wait()) for _ in range(instances)]
    outcomes = drive(engines, soon([0] * 6 * instances))
    assert [outcome.error for outcome in outcomes] == [None] * 6 * instances
    assert sum(len(engine.calls) for engine in engines) == 6 * instances
    for engine in engines:
        assert (engine.overlapped, len(engine.threads)) == (False, 1)
        assert threading.get_ident() not in engine.threads


def test_requests_go_out_on_schedule_and_wait_in_order_while_the_engine_computes() -> None:
    gate = threading.Event()
    engine = FakeEngine(lambda _: gate.wait(DEADLINE_S))
    schedule, count = constant_ns(500, 50), 50
    loop = soon(schedule)
    queued: list[int] = []

    def tick(_: list[Outcome]) -> None:
        if loop.next_due() is None and not gate.is_set():
            queued.append(time.monotonic_ns())
            gate.set()

    outcomes = drive([engine], loop, tick=tick)
    # All were sent before the first was answered; the engine then took them one after the other.
    assert len(outcomes) == count
    assert all(outcome.sent <= queued[0] <= outcome.done for outcome in outcomes)
    assert [o.done for o in outcomes] == sorted(o.done for o in outcomes)
    assert engine.calls == [int(next(iter(o.payload.request.values()))[0].sum()) for o in outcomes]


def test_overload_shows_as_latency_from_the_schedule() -> None:
    engine = FakeEngine(lambda _: time.sleep(0.02))
    outcomes = drive([engine], soon(constant_ns(500, 30)))
    for number, outcome in enumerate(outcomes):
        # The engine cannot have come to it sooner than this, whatever else the machine does.
        assert (outcome.done - outcome.scheduled) / MS >= 20 * (number + 1) - 2 * number - 1


def test_what_an_engine_raises_fails_one_request_with_its_words() -> None:
    def third(_: Arrays) -> None:
        if len(engine.calls) % 3 == 0:
            raise MemoryError("out of memory: 3 GiB")

    engine = FakeEngine(third)
    outcomes = drive([engine], soon(constant_ns(500, 9)))
    assert [outcome.error for outcome in outcomes] == [None, None, "engine_error"] * 3
    assert outcomes[2].response is not None
    assert outcomes[2].response.message() == "fake: out of memory: 3 GiB"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda _: {}, "missing_output"),
        (lambda answer: {k: v.astype(np.int8) for k, v in answer.items()}, "wrong_datatype"),
        (lambda answer: {k: v[:, :-1] for k, v in answer.items()}, "wrong_shape"),
        (lambda answer: {k: np.concatenate([v, v]) for k, v in answer.items()}, "wrong_shape"),
    ],
)
def test_answers_are_checked_like_a_servers(change: Callable[[Arrays], Arrays], kind: str) -> None:
    class Wrong(FakeEngine):
        def run(self, inputs: Arrays) -> Arrays:
            return change(super().run(inputs))

    seen = drive([Wrong()], soon([0, 0]))
    assert {outcome.error for outcome in seen} == {kind}
    assert all(outcome.words().startswith("output ") for outcome in seen)


def test_a_request_that_timed_out_is_not_computed_any_more_and_leaves_no_descriptor() -> None:
    gate = threading.Event()
    engine = FakeEngine(lambda _: gate.wait(DEADLINE_S))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    def tick(outcomes: list[Outcome]) -> None:
        if len(outcomes) == 5:
            gate.set()

    outcomes = drive([engine], soon([0] * 5), timeout_s=1.0, tick=tick)
    assert [outcome.error for outcome in outcomes] == ["timeout"] * 5
    assert len(engine.calls) == 1
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_an_engine_that_cannot_be_loaded_says_so_and_leaves_no_thread() -> None:
    def fail() -> FakeEngine:
        raise ValueError("no such file")

    threads = threading.active_count()
    with pytest.raises(ValueError, match="no such file"), EngineThreads([FakeEngine, fail]):
        pass
    assert threading.active_count() == threads


def test_a_closed_loop_keeps_its_concurrency() -> None:
    engine = FakeEngine(lambda _: time.sleep(0.002))
    outcomes = drive([engine], ClosedLoopArrivals(4, lambda _: len(engine.calls) >= 40))
    assert not any(outcome.error for outcome in outcomes)
    assert len(outcomes) == len(engine.calls)
    assert 40 <= len(outcomes) <= 44
    # Whenever one goes out, the three that went out before it are in flight still, and none before those.
    for earlier, later in zip(outcomes, outcomes[4:], strict=False):
        assert earlier.done <= later.sent
