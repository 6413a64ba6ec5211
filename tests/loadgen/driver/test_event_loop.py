"""The driver against the golden server: every request has one outcome, of the right kind."""

import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from loadgen.driver.event_loop import EVENTS_AT_ONCE, TICK_NS
from loadgen.kserve.http_connection import Connection
from loadgen.sut.channel import Outcome
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer
from tests.loadgen.kserve.test_http_connection import reply, take_request
from tests.support.locust_run import until
from tests.support.raw_server import raw_server

KIND_OF = {
    "ok": "ok",
    "slow": "ok",
    "wrong_value": "ok",  # only the comparison with golden outputs sees it
    "error": "http_500",
    "wrong_shape": "wrong_shape",
    "wrong_datatype": "wrong_datatype",
    "other_model": "wrong_model",
    "other_version": "wrong_version",
    "reset": "connection_reset",
    "truncate": "connection_closed",
    "never": "timeout",
}
MS = 1_000_000


def expected(server: GoldenServer) -> Counter[str]:
    """The kinds of outcome that the server's own log says."""
    return Counter(KIND_OF[entry["kind"]] for entry in server.requests())


def check_once(load: Load, schedule: list[int]) -> None:
    """Every scheduled request has exactly one outcome."""
    assert sorted(o.scheduled - load.started_ns for o in load.outcomes) == schedule


@pytest.mark.parametrize("behaviour", [kind for kind in KIND_OF if kind not in {"ok", "never"}])
def test_each_behaviour_alone(behaviour: str) -> None:
    every: dict[str, Any] = {f"{behaviour}_every": 3}
    with GoldenServer(**every, slow_s=0.02) as server:
        load = Load(server.port).closed(3, 0.3)
        assert load.kinds == expected(server)
        assert load.kinds[KIND_OF[behaviour]] > 0
        assert all(o.response is not None for o in load.outcomes if not (o.error or "").startswith("connection"))


def test_all_behaviours_together_are_counted_exactly() -> None:
    mixed: dict[str, Any] = {
        "error_every": 5, "reset_every": 7, "truncate_every": 11, "wrong_shape_every": 13,
        "wrong_datatype_every": 17, "wrong_value_every": 19, "slow_every": 23, "never_every": 97,
    }  # fmt: skip
    schedule = constant_ns(700, 1000)
    with GoldenServer(**mixed, slow_s=0.05) as server:
        load = Load(server.port, timeout_s=2, connect=16).open(schedule)
        check_once(load, schedule)
        assert load.kinds == expected(server)
        assert load.kinds["timeout"] == 1000 // 97
        assert len(load.kinds) == 7
        log = server.requests()
    # and byte for byte: every content came as often as it was sent
    assert set(Counter(entry["crc32"] for entry in log).values()) == {1000 // 50}


def test_clocks_agree_with_the_server() -> None:
    with GoldenServer(delay_s=0.004) as server:
        load = Load(server.port, connect=1).closed(1, 0.4)
        log = server.requests()
    assert len(log) == len(load.outcomes) > 0
    for outcome, entry in zip(load.outcomes, log, strict=True):
        assert outcome.scheduled <= outcome.sent <= entry["arrival_ns"]
        assert entry["due_ns"] <= outcome.done


@pytest.mark.parametrize("concurrency", [1, 4, 32])
def test_closed_loop_keeps_its_concurrency_on_as_many_connections(concurrency: int) -> None:
    with GoldenServer(delay_s=0.01) as server:
        load = Load(server.port, connect=concurrency).closed(concurrency, 0.5)
        log = server.requests()
    assert load.kinds == {"ok": len(log)}
    assert load.peak_in_flight == concurrency
    assert len({entry["connection"] for entry in log}) == concurrency
    # 0.5 s / 10 ms rounds at most; fewer on a busy machine
    assert concurrency <= len(log) <= 51 * concurrency


def test_open_loop_reuses_idle_connections() -> None:
    with GoldenServer() as server:
        load = Load(server.port).open(constant_ns(100, 50))
        assert load.kinds == {"ok": 50}
        # A busy machine has some requests wait for others; no more connections than that are opened.
        assert len({entry["connection"] for entry in server.requests()}) == load.peak_in_flight


def test_connections_opened_ahead_carry_the_requests() -> None:
    with GoldenServer(delay_s=0.05) as server:
        Load(server.port, connect=10).open([0] * 10)
        log = server.log()
    assert len({entry["connection"] for entry in log["requests"]}) == 10
    assert log["connections"] == 10 + 1  # that of the log


def test_waiting_beyond_max_in_flight_counts_as_latency() -> None:
    delay_ms, gap_ms, count, limit = 100, 20, 30, 2
    with GoldenServer(delay_s=delay_ms / 1e3) as server:
        load = Load(server.port, max_in_flight=limit, connect=limit).open(constant_ns(1000 / gap_ms, count))
        assert len({entry["connection"] for entry in server.requests()}) == limit
    assert (load.kinds, load.peak_in_flight) == ({"ok": count}, limit)
    for number, outcome in enumerate(load.good):
        # Served two at a time: the pair of request n begins when the pair before it is done.
        latency_ms = max((number // 2 + 1) * delay_ms, number % 2 * gap_ms + delay_ms) - number * gap_ms
        assert outcome.done - outcome.scheduled >= latency_ms * MS
        assert outcome.done - outcome.sent >= delay_ms * MS
    # It goes out when an earlier one has been answered, and not before.
    answered = sorted(outcome.done for outcome in load.good)
    for number, outcome in enumerate(sorted(load.good, key=lambda o: o.sent)[limit:]):
        assert answered[number] <= outcome.sent
    assert load.good[-1].done - load.good[-1].scheduled > 800 * MS


def test_a_generator_that_is_late_keeps_its_schedule() -> None:
    schedule, pause_ms = constant_ns(200, 100), 150

    def hang(now: int) -> None:
        if now > load.started_ns + 200 * MS and not paused:
            paused.append(now)
            time.sleep(pause_ms / 1e3)

    paused: list[int] = []
    with GoldenServer() as server:
        load = Load(server.port, connect=64, tick=hang)
        load.open(schedule)
    check_once(load, schedule)
    late = [(o.sent - o.scheduled) / MS for o in load.good]
    # at least those that fell due in the pause; a busy machine adds its own
    assert sum(ms > 3 for ms in late) >= pause_ms / 5 - 3
    assert max(late) > pause_ms - 10
    assert all(o.done - o.scheduled > o.sent - o.scheduled for o in load.good)


def test_a_crowd_that_times_out_does_not_keep_answers_from_being_read() -> None:
    class Slow(list[Outcome]):
        def append(self, outcome: Outcome) -> None:
            time.sleep(0.001 if outcome.error else 0)
            super().append(outcome)

    with GoldenServer(delay_s=0.2) as server:
        load = Load(server.port, timeout_s=1.5, max_in_flight=4, connect=4, outcomes=Slow()).open([0] * 2000)
    assert load.kinds.keys() == {"ok", "timeout"}
    # Without a break it takes 2 s to say of all that they were never sent.
    assert all(outcome.sent == 0 for outcome in load.outcomes if outcome.error)


def test_ticks_that_take_long_leave_as_much_time_for_answers() -> None:
    """A generator that is short of CPU reads what has come, not a few answers in each turn."""
    count, ticks = 256, 0

    def tick(_: int) -> None:
        nonlocal ticks
        if not ticks and len(server.requests()) == count:
            until(lambda: all(entry["written_ns"] for entry in server.requests()), "all answers")
            ticks = 1
        elif ticks:
            time.sleep(0.1)
            ticks += 1

    with GoldenServer(delay_s=1) as server:
        load = Load(server.port, timeout_s=60, tick=tick, connect=count).open([0] * count)
    assert load.kinds == {"ok": count}
    assert ticks < count / EVENTS_AT_ONCE / 2


@pytest.mark.parametrize("limit", [1, 1024])
def test_what_is_never_answered_or_never_sent_times_out(limit: int) -> None:
    schedule = constant_ns(50, 20)
    with GoldenServer(never_every=1) as server:
        load = Load(server.port, timeout_s=0.3, max_in_flight=limit).open(schedule)
        received = len(server.requests())
    check_once(load, schedule)
    assert load.kinds == {"timeout": 20}
    assert received == (20 if limit > 20 else sum(o.sent > 0 for o in load.outcomes))
    for outcome in load.outcomes:
        assert 300 * MS <= outcome.done - outcome.scheduled < 5000 * MS
        assert outcome.message.startswith(
            "no response within 0.3 s" if outcome.sent else "not sent within 0.3 s of its schedule"
        )


@pytest.mark.parametrize("limit", [4, 1024])
def test_an_answer_after_its_time_out_is_none_also_where_it_comes_before_the_next_look(limit: int) -> None:
    schedule = constant_ns(200, 100)
    with GoldenServer(delay_s=0.25) as server:
        load = Load(server.port, timeout_s=0.2, connect=32, max_in_flight=limit).open(schedule)
    assert load.kinds == {"timeout": len(schedule)}
    assert all(outcome.done - outcome.scheduled > 200 * MS for outcome in load.outcomes)
    assert {outcome.message for outcome in load.outcomes if outcome.sent} == {"no response within 0.2 s"}


def test_what_waited_for_its_turn_has_the_whole_time_out_for_its_answer() -> None:
    """Else a generator that is once behind by the time-out sends only what is about to expire, and stays there."""
    with GoldenServer(delay_s=1.2) as server:
        load = Load(server.port, timeout_s=2, max_in_flight=1).open([0] * 4)
    # The second is sent at 1.2 s and answered at 2.4 s; the others' wait is over at 2 s.
    assert [outcome.error for outcome in sorted(load.outcomes, key=lambda o: o.sent or o.done)] == [
        None, None, "timeout", "timeout",
    ]  # fmt: skip


def test_what_a_closed_loop_was_answered_too_late_fails_and_the_loop_goes_on() -> None:
    with GoldenServer(delay_s=0.12) as server:
        load = Load(server.port, timeout_s=0.1).closed(2, 0.5)
    assert load.kinds.keys() == {"timeout"}
    assert load.kinds["timeout"] >= 2


@contextmanager
def dead_port() -> Iterator[int]:
    """A port that nobody listens on, kept from others."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_refused_connections_of_the_open_loop() -> None:
    schedule = constant_ns(500, 250)
    with dead_port() as port:
        load = Load(port, connect=64).open(schedule)
    check_once(load, schedule)
    assert load.kinds == {"connection_refused": 250}
    assert all(outcome.sent == 0 for outcome in load.outcomes)
    assert "refused" in load.outcomes[0].message


@pytest.mark.parametrize("concurrency", [4, 2000])
def test_a_closed_loop_against_a_dead_port_neither_spins_nor_recurses(concurrency: int) -> None:
    cpu = time.process_time()
    with dead_port() as port:
        load = Load(port).closed(concurrency, 0.6)
    assert load.kinds.keys() == {"connection_refused"}
    assert concurrency <= len(load.outcomes) <= 8 * concurrency
    if concurrency == 4:
        assert time.process_time() - cpu < 0.3


def test_large_payloads_both_ways() -> None:
    width = 150_000
    with GoldenServer(inputs=[f"INPUT0:FP32:{width}"], outputs=[f"OUTPUT0:FP32:{width}"]) as server:
        load = Load(server.port, width=width, distinct=3).closed(2, 0.5)
        log = server.requests()
    assert load.kinds == {"ok": len(log)}
    assert len(log) >= 2
    for outcome in load.good:
        response: Any = outcome.response
        assert len(response.body) > 4 * width
        assert response.body[-4 * width :] == outcome.payload.request[-4 * width :]


@pytest.mark.parametrize("pieces", [2, 200])
def test_slow_bytes_are_one_response(pieces: int) -> None:
    with GoldenServer(slow_every=1, slow_s=0.2, slow_pieces=pieces) as server:
        load = Load(server.port).open(constant_ns(50, 10))
        log = server.requests()
    assert load.kinds == {"ok": 10}
    assert all(o.done - o.sent >= 200 * MS for o in load.outcomes)
    assert len(log) == 10


def test_an_interruption_loses_nothing() -> None:
    schedule = constant_ns(200, 400)
    ended: list[int] = []

    def interrupt(_now: int) -> None:
        if len(load.outcomes) >= 30:
            ended.append(time.monotonic_ns())
            raise KeyboardInterrupt

    with GoldenServer(delay_s=0.1) as server:
        load = Load(server.port, max_in_flight=10, tick=interrupt)
        load.open(schedule)
        received = len(server.requests())
    # what was due had been taken from the schedule: all of that has an outcome, and nothing else
    check_once(load, schedule[: len(load.outcomes)])
    assert max(outcome.scheduled for outcome in load.outcomes) <= ended[0]
    # the server does 100/s of the 200/s: the others were in flight, or waited
    assert load.kinds.keys() == {"ok", "interrupted"}
    assert sum(outcome.sent > 0 for outcome in load.outcomes) == received


def test_a_server_that_dies_leaves_no_request_without_outcome() -> None:
    schedule = constant_ns(200, 400)
    with GoldenServer(delay_s=0.02) as server:

        def kill(_now: int) -> None:
            if len(load.outcomes) >= 60:
                os.kill(server.pid, signal.SIGKILL)

        load = Load(server.port, tick=kill)
        load.open(schedule)
    check_once(load, schedule)
    assert load.kinds["ok"] >= 60
    assert load.kinds["connection_refused"] > 0
    assert load.kinds.keys() <= {"ok", "connection_refused", "connection_reset", "connection_closed"}


def test_no_more_file_descriptors_is_an_error_of_its_own() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with GoldenServer(delay_s=0.2) as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, hard))  # noqa: PTH208
        try:
            load = Load(server.port).open([0] * 40)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert load.kinds["ok"] == len(server.requests())
    assert load.kinds.keys() == {"ok", "too_many_open_files"}
    assert load.kinds.total() == 40


@pytest.mark.parametrize("method", ["open", "connected", "start", "readable"])
def test_an_error_in_a_channel_costs_one_request(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def break_once(connection: Connection) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise IndexError("of its own")
        return working(connection)

    working = getattr(Connection, method)
    monkeypatch.setattr(Connection, method, break_once)
    # Each request on a connection of its own, so that each method is called for it.
    with GoldenServer(delay_s=0.1) as server:
        load = Load(server.port).open([0] * 5)
    assert load.kinds == {"ok": 4, "generator_error": 1}
    (failed,) = [outcome for outcome in load.outcomes if outcome.error]
    assert "IndexError: of its own (test_event_loop.py, line" in failed.message


def test_an_error_in_a_channel_without_a_request_costs_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Connection) -> bool:
        raise IndexError("of its own")

    monkeypatch.setattr(Connection, "on_unsolicited_data", broken)

    def chatty(connection: socket.socket) -> None:
        while take_request(connection):
            connection.sendall(reply())
            time.sleep(0.05)
            connection.sendall(b"one more thing")

    with raw_server(chatty) as (port, accepted):
        assert Load(port, max_in_flight=1).open([0, 300 * MS]).kinds == {"ok": 2}
    assert accepted == [2]


def test_an_error_where_outcomes_are_counted_is_not_taken_for_a_channels() -> None:
    class Broken(list[Outcome]):
        def append(self, _: Outcome) -> None:
            raise IndexError("of the recorder")

    with GoldenServer() as server, pytest.raises(IndexError, match="of the recorder"):
        Load(server.port, outcomes=Broken()).open([0])


def test_a_tick_waits_where_a_request_is_due_meanwhile() -> None:
    """A tick keeps the thread for a while: of two requests that are due soon after each other it follows the second."""
    ticks: list[int] = []
    schedule = [start + wait for start in constant_ns(500, 250) for wait in (0, TICK_NS * 2 // 3)]
    with GoldenServer() as server:
        load = Load(server.port, connect=64, tick=ticks.append).open(schedule)
    due = [o.scheduled for o in load.outcomes]
    soon = sum(any(0 < each - tick < TICK_NS - MS // 20 for each in due) for tick in ticks)
    # One that was put off for long comes all the same, where a busy machine made it late.
    assert soon <= len(ticks) / 10
