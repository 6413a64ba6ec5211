"""The master's decisions, with workers that answer as this file has them, and a clock that it sets."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from locust.runners import STATE_INIT, STATE_MISSING

from loadgen.distributed.master import GRACE_S, Master
from loadgen.distributed.messages import fingerprint
from loadgen.load.warm_up import WarmUp
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from servemark.errors import ExitCode, OptionError, WorkerError
from tests.loadgen.distributed.test_worker_view import report
from tests.support.load_config import config
from tests.support.measured import S, answered

OPEN = ("--request-rate", "10", "--duration", "5", "--warmup", "1", "--request-timeout", "2")
CLOSED = ("--concurrency", "4", "--duration", "5", "--warmup", "1", "--request-timeout", "2")
REALTIME = {"priority": "realtime", "note": None}
Answer = Callable[["Workers", str, dict[str, Any]], None]


class Clients(dict[str, SimpleNamespace]):
    """Locust's view of its workers."""

    spawning, running = (), ()

    @property
    def ready(self) -> list[SimpleNamespace]:
        return list(self.values())


class Workers:
    """Locust's runner with workers that answer every order at once, unless a test says how else."""

    def __init__(self, flags: tuple[str, ...], names: tuple[str, ...] = ("a", "b")) -> None:
        self.clients = Clients({name: SimpleNamespace(id=name, state=STATE_INIT) for name in names})
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.config = config("ranking_tiny", *flags)
        self.answers: dict[str, Answer] = {"prepare": Workers.ready, "ping": Workers.pong}
        self.master = Master(self.config, self)  # type: ignore[arg-type] # the part of a runner it uses

    def get_worker_index(self, name: str) -> int:
        return sorted(self.clients).index(name)

    def send_message(self, _kind: str, order: dict[str, Any], name: str) -> None:
        self.sent.append((name, order))
        if (answer := self.answers.get(order["kind"])) is not None:
            answer(self, name, order)

    def say(self, name: str, kind: str, **content: Any) -> None:
        self.master.on_message(name, {**content, "run": self.sent[-1][1]["run"] if self.sent else "", "kind": kind})

    def ready(self, name: str, order: dict[str, Any]) -> None:
        schedule = self.config.scenario.schedule(self.config.seed)
        parts = fingerprint(self.config, schedule, golden=order["golden"])
        self.say(name, "ready", host="h", pid=1, fingerprint=parts)

    def pong(self, name: str, order: dict[str, Any]) -> None:
        self.say(name, "pong", sent_ns=order["sent_ns"], clock_ns=order["sent_ns"] + 7 * S)

    def report(self, name: str, until_s: float, rate: float, *, final: bool = False, early: str | None = None) -> None:
        """Make the record of a worker with its own clock: `rate` requests a second, scheduled from the interval on."""
        recorder = Recorder(Interval(0, 5 * S, 5), least=float("inf"))
        recorder.end_at(round(until_s * S))
        for number in range(round(until_s * rate)):
            recorder.outcome(answered(number / rate, 0.01))
        recorder.tick(round(until_s * S) - 1)
        recorder.flush()
        granted = {"priority": "normal", "note": "not permitted"} if name == "b" else REALTIME
        self.say(name, **report(recorder, final=final, granted=granted, interrupted=early))

    def warming(self, name: str, part: dict[str, Any] | None) -> None:
        """Report a worker's warm-up."""
        self.say(name, **report(warm_up=part))

    def orders(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        return [(name, order) for name, order in self.sent if order["kind"] == kind]

    def begun(self) -> "Workers":
        """Ready, with the schedule begun."""
        for name in self.clients:
            self.say(name, "join", token=name)
        self.master.prepare(None)
        self.master.start(Path())
        return self


def test_each_worker_is_told_its_share_and_when_to_begin_by_its_own_clock() -> None:
    workers = Workers((*OPEN, "--seed", "3"), names=("b", "a")).begun()
    shares = [(name, order["index"], order["of"], order["token"]) for name, order in workers.orders("prepare")]
    assert sorted(shares) == [("a", 0, 2, "a"), ("b", 1, 2, "b")]
    assert {json.loads(order["request"])["inputs"]["seed"] for _, order in workers.orders("prepare")} == {3}
    schedule_ns = workers.master.interval.start - 1 * S
    assert [order["start_ns"] for _, order in workers.orders("begin")] == pytest.approx(
        [schedule_ns + 7 * S] * 2, abs=S / 10
    )


def test_all_workers_end_their_warm_up_at_one_time_when_the_latency_of_all_is_steady() -> None:
    workers = Workers((*OPEN, "--duration", "15", "--warmup", "auto")).begun()
    master, bound = workers.master, workers.master.interval.start
    start, ends = bound - 15 * S, {"a": 0.5, "b": 1.5}
    parts = {name: WarmUp(start, 15.0) for name in ends}
    for tick in range(1, 150):
        now = start + tick * S // 10
        for name, cold_s in ends.items():
            latency = 50_000_000 if tick / 10 < cold_s else 5_000_000
            parts[name].take(np.array([now - 1]), np.array([latency]))
            workers.warming(name, parts[name].pack(now, None))
        master._warm(now)
        if master.warmed is not None:
            break
    assert start + 6 * S < master.interval.start == now + S // 2 < bound
    assert master.warmed is not None
    orders = workers.orders("measure")
    assert [name for name, _ in orders] == ["a", "b"]
    assert {order["start_ns"] for _, order in orders} == {
        w.clock.theirs(master.interval.start) for w in master._workers.values()
    }
    assert master.warmed.steady
    assert master.warmed.steady_from_s == pytest.approx(1.5, abs=0.1)
    assert master.warmed.seconds == (master.interval.start - start) / S


def test_a_warm_up_of_several_workers_ends_at_its_bound_where_one_says_nothing() -> None:
    workers = Workers((*OPEN, "--warmup", "auto")).begun()
    master, bound = workers.master, workers.master.interval.start
    part = WarmUp(bound - 5 * S, 5.0)
    for now in range(bound - 5 * S, bound + S, S // 5):
        part.take(np.array([now - 1]), np.array([5_000_000]))
        workers.warming("a", part.pack(now, None) if now < bound else None)
        master._warm(now)
    assert master.warmed is not None
    assert (master.interval.start, workers.orders("measure")) == (bound, [])
    assert (master.warmed.steady, master.warmed.seconds) == (None, 5.0)
    assert "too few answers (0)" in str(master.warmed.reason)


def test_who_asks_late_is_invited_then_and_a_stranger_is_passed_over() -> None:
    workers = Workers(OPEN)
    workers.master.prepare(None)
    assert not workers.sent
    workers.say("a", "join", token="t")  # noqa: S106 - it names a message
    workers.say("stranger", "join", token="s")  # noqa: S106
    assert [(name, order["token"]) for name, order in workers.orders("prepare")] == [("a", "t")]


@pytest.mark.parametrize(
    ("flags", "names", "words"),
    [
        ((*OPEN, "--max-in-flight", "1"), ("a", "b"), "--max-in-flight 1 is less than one for each of 2 workers"),
        ((*OPEN, "--request-log"), ("a",), "--request-log is for one process"),
        (OPEN, (), "no worker is connected"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(flags: tuple[str, ...], names: tuple[str, ...], words: str) -> None:
    with pytest.raises((OptionError, WorkerError), match=words):
        Workers(flags, names).begun()


def fail(workers: Workers, name: str, _order: dict[str, Any]) -> None:
    workers.say(name, "failed", what="no such file", fix="copy it", exit_code=int(ExitCode.BAD_INPUT))


def differ(workers: Workers, name: str, _order: dict[str, Any]) -> None:
    workers.say(name, "ready", host="h", pid=1, fingerprint={"version of servemark": "0.0.0"})


def quit_(workers: Workers, name: str, _order: dict[str, Any]) -> None:
    workers.clients.pop(name)


def vanish(workers: Workers, name: str, _order: dict[str, Any]) -> None:
    workers.clients[name].state = STATE_MISSING


def stay_silent(*_: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fail, "worker 0 (a): no such file"),
        (differ, "worker 0 (h, pid 1) has another version of servemark"),
        (quit_, "worker 0 (a): it quit before the run began"),
        (vanish, "worker 0 (a): it was lost: no heartbeat came from it before the run began"),
        (stay_silent, "worker 0 (a) did not be ready within 0.05 s"),
    ],
)
def test_a_worker_that_is_not_ready_ends_the_run_before_it_begins(
    answer: Answer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadgen.distributed.master.READY_TIMEOUT_S", 0.05)
    workers = Workers(OPEN)
    workers.answers["prepare"] = answer
    with pytest.raises(WorkerError) as error:
        workers.begun()
    assert error.value.what == words


def run(workers: Workers, monkeypatch: pytest.MonkeyPatch, steps: dict[float, Callable[[], None]]) -> list[float]:
    """Follow the workers with what happens at these times, in s from the interval's start; the times of all ticks."""
    start, ticks = workers.master.interval.start, []
    waiting = sorted(steps)
    clock = SimpleNamespace(now=start - 1 * S)

    def tick(now: int) -> None:
        ticks.append((now - start) / S)
        clock.now += S // 10
        while waiting and (clock.now - start) / S >= waiting[0]:
            steps[waiting.pop(0)]()

    monkeypatch.setattr("loadgen.distributed.master.POLL_S", 0)
    monkeypatch.setattr("time.monotonic_ns", lambda: clock.now)
    workers.master.run(tick)
    return ticks


def test_a_run_ends_with_the_last_figures_of_every_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(OPEN).begun()
    master = workers.master

    def finish(name: str, rate: float) -> Callable[[], None]:
        return lambda: workers.report(name, 5, rate, final=True)

    ticks = run(
        workers, monkeypatch, {0.5: lambda: workers.report("a", 1, 4), 5.2: finish("a", 4), 6.0: finish("b", 6)}
    )
    assert ticks[-1] == pytest.approx(5.9, abs=0.11)
    assert (master.recorder.scheduled, master.peak_in_flight, master.cpu_utilization) == (50, 4, 0.1)
    assert (master.granted.priority, master.granted.note) == ("normal", "worker 1 (h, pid 1): not permitted")
    assert [(worker["requests"], worker["trouble"]) for worker in master.workers] == [(20, None), (30, None)]
    assert master.interrupted is None


def test_an_open_loop_waits_for_its_last_figures_no_longer_than_two_time_outs_and_a_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(OPEN).begun()
    ticks = run(workers, monkeypatch, {5.0: lambda: workers.report("a", 5, 4, final=True)})
    assert ticks[-1] == pytest.approx(5 + 2 * 2 + GRACE_S, abs=0.11)
    whole, silent = workers.master.workers
    assert whole["trouble"] is None
    assert "reported nothing" in str(silent["trouble"])


def test_a_worker_that_is_lost_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(OPEN).begun()
    steps = {3.0: lambda: quit_(workers, "b", {}), 5.0: lambda: workers.report("a", 5, 4, final=True)}
    ticks = run(workers, monkeypatch, steps)
    assert ticks[-1] < 6
    assert [worker["trouble"] for worker in workers.master.workers] == [None, "it quit"]


def test_a_closed_loop_s_interval_goes_on_until_each_connection_has_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(CLOSED).begun()
    master = workers.master

    def end(name: str) -> Callable[[], None]:
        return lambda: workers.report(name, 8, 0.5, final=True)

    # two connections each: the second answers of b come when 7 s have passed
    steps = {2.0: lambda: workers.report("a", 5, 0.5), 3.0: lambda: workers.report("b", 5, 0.1)}
    steps |= {7.0: lambda: workers.report("b", 7, 0.3), 8.1: end("a"), 8.2: end("b")}
    run(workers, monkeypatch, steps)
    assert (master.interval.end - master.interval.start) / S == 8
    assert [(name, order["length_ns"] / S) for name, order in workers.orders("end")] == [("a", 8), ("b", 8)]
    assert master.is_over(master.interval.end)


def test_a_run_that_is_stopped_collects_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(OPEN).begun()
    workers.answers["stop"] = lambda _, name, order: workers.report(name, 2, 4, final=True, early=order["reason"])

    def interrupt() -> None:
        raise KeyboardInterrupt

    run(workers, monkeypatch, {2.0: interrupt})
    assert workers.master.interrupted == "it was stopped"
    assert [worker["trouble"] for worker in workers.master.workers] == [None, None]
    assert workers.master.recorder.scheduled == 16


def lie(workers: Workers, name: str, _order: dict[str, Any]) -> None:
    workers.say(name, "ready", host="h", pid="one", fingerprint={})


def test_a_worker_that_lies_before_the_run_costs_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(OPEN)
    prepared = workers.answers["prepare"]
    workers.answers["prepare"] = lambda all_, name, order: (lie if name == "b" else prepared)(all_, name, order)
    workers.begun()
    assert [name for name, _ in workers.orders("begin")] == ["a"]
    run(workers, monkeypatch, {5.1: lambda: workers.report("a", 5, 4, final=True)})
    assert workers.master.recorder.scheduled == 20
    honest, liar = workers.master.workers
    assert honest["trouble"] is None
    assert "its share is lost: it sent a message that no worker of servemark sends" in str(liar["trouble"])
    assert "(Expected `int`, got `str` - at `$.pid`)" in str(liar["trouble"])


def test_a_worker_that_lies_in_the_run_costs_its_share_and_nothing_of_it_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(OPEN).begun()
    steps = {
        1.0: lambda: workers.report("b", 1, 9),
        2.0: lambda: workers.say("b", "state", recorder={"windows": []}),
        3.0: lambda: workers.report("b", 3, 9),
        5.1: lambda: workers.report("a", 5, 4, final=True),
    }
    ticks = run(workers, monkeypatch, steps)
    assert ticks[-1] < 6, "a liar is not waited for"
    assert [worker["requests"] for worker in workers.master.workers] == [20, 0]
    assert "its share is lost" in str(workers.master.workers[1]["trouble"])


def test_workers_that_all_lie_end_the_run_before_it_begins() -> None:
    workers = Workers(OPEN)
    workers.answers["prepare"] = lie
    with pytest.raises(WorkerError, match="its share is lost"):
        workers.begun()
