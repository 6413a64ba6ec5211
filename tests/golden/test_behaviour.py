"""The golden server answers when it was told, and breaks answers as it was told: its own clock and raw sockets."""

import contextlib
import itertools
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.golden.behaviour import Behaviour
from tests.golden.server import GoldenServer, PreciseSelector
from tests.support.raw_client import body, connect, exchange


@pytest.mark.parametrize("delay_s", [0.0, 0.0025, 0.05])
def test_delay(delay_s: float) -> None:
    with GoldenServer(delay_s=delay_s) as server, connect(server) as connection:
        took = []
        for _ in range(20):
            begin = time.monotonic_ns()
            exchange(connection)
            took.append((time.monotonic_ns() - begin) / 1e9)
        log = server.requests()
    assert min(took) >= delay_s
    assert [entry["due_ns"] - entry["arrival_ns"] for entry in log] == [round(delay_s * 1e9)] * 20
    assert all(entry["written_ns"] >= entry["due_ns"] for entry in log)


@pytest.mark.parametrize("awake", [False, True])
def test_timers_are_finer_than_a_millisecond(monkeypatch: pytest.MonkeyPatch, awake: bool) -> None:
    """The system is asked to wait as long as it was meant to, never rounded up; who polls never asks it to."""
    asked: list[float | None] = []
    monkeypatch.setattr("tests.golden.server.select.select", lambda *call: asked.append(call[-1]))
    begin = time.monotonic()
    with contextlib.closing(PreciseSelector(awake=awake)) as selector:
        assert selector.select(0.0003) == []
    assert asked == ([] if awake else [0.0003])
    assert not awake or time.monotonic() - begin >= 0.0003


def test_parallel_without_capacity() -> None:
    with GoldenServer(delay_s=0.3) as server:
        connections = [connect(server) for _ in range(50)]
        with ThreadPoolExecutor(50) as pool:
            assert {status for status, *_ in pool.map(exchange, connections)} == {200}
        log = server.log()
        for connection in connections:
            connection.close()
    assert len({entry["connection"] for entry in log["requests"]}) == 50
    assert log["connections"] == 51  # and that of the log
    # None waits for another: each starts when it comes.
    assert all(entry["start_ns"] == entry["arrival_ns"] for entry in log["requests"])


def test_stall_rule() -> None:
    behaviour = Behaviour(stall_s=0.2, stall_every_s=1.0, stall_phase_s=0.5)
    second = 10**9
    for arrival_s, start_s in [(0.0, 0.0), (0.49, 0.49), (0.5, 0.7), (0.69, 0.7), (0.7, 0.7), (2.6, 2.7), (2.71, 2.71)]:
        start_ns = behaviour.after_stall_ns(round((7 + arrival_s) * second), 7 * second)
        assert start_ns == round((7 + start_s) * second), arrival_s
    with pytest.raises(ValueError, match="longer than"):
        Behaviour(stall_s=1, stall_every_s=1)


def test_stall_holds_what_arrives_in_it() -> None:
    with (
        GoldenServer(
            stall_s=0.2, stall_every_s=0.4, stall_phase_s=0.1, stall_anchor="first_request", delay_s=0.01
        ) as server,
        connect(server) as connection,
    ):
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            exchange(connection)
        log = server.requests()
    anchor_ns = log[0]["arrival_ns"]
    held = 0
    for entry in log:
        into_ns = (entry["arrival_ns"] - anchor_ns - 100_000_000) % 400_000_000
        stalled = entry["arrival_ns"] >= anchor_ns + 100_000_000 and into_ns < 200_000_000
        held += stalled
        wait_ns = 200_000_000 - into_ns if stalled else 0
        assert entry["due_ns"] - entry["arrival_ns"] == wait_ns + 10_000_000
        assert entry["due_ns"] <= entry["written_ns"]
    # one closed-loop connection meets each stall at most once: the coordinated omission in a nutshell
    assert 1 <= held <= 3


def test_capacity_is_one_fifo_server() -> None:
    with GoldenServer(capacity_per_s=100) as server:
        connections = [connect(server) for _ in range(30)]
        with ThreadPoolExecutor(30) as pool:
            list(pool.map(exchange, connections))
        log = server.requests()
        for connection in connections:
            connection.close()
    starts = [entry["start_ns"] for entry in log]
    assert starts == sorted(starts)
    assert all(b - a >= 10_000_000 for a, b in itertools.pairwise(starts))
    assert log[-1]["written_ns"] - log[0]["arrival_ns"] >= 300_000_000


def test_every_behaviour_on_its_turn() -> None:
    kinds: Counter[str] = Counter()
    with GoldenServer(
        error_every=3, error_status=503, wrong_shape_every=5, wrong_datatype_every=7, wrong_value_every=11
    ) as server:
        with connect(server) as connection:
            for number in range(1, 51):
                status, reply, raw = exchange(connection, body(batch=2))
                if number % 3 == 0:
                    kind = "error"
                    assert (status, reply) == (503, {"error": f"golden error on request {number}"})
                else:
                    [output] = reply["outputs"]
                    assert status == 200
                    assert output["parameters"]["binary_data_size"] == len(raw)
                    right = np.arange(128, dtype="f4").reshape(2, 64)
                    if number % 5 == 0:
                        kind = "wrong_shape"
                        assert (output["shape"], output["datatype"], len(raw)) == ([2, 63], "FP32", 2 * 63 * 4)
                    elif number % 7 == 0:
                        kind = "wrong_datatype"
                        assert (output["shape"], output["datatype"]) == ([2, 64], "INT32")
                    else:
                        kind = "ok" if number % 11 else "wrong_value"
                        values = np.frombuffer(raw, "f4").reshape(2, 64)
                        np.testing.assert_array_equal(values, right if kind == "ok" else right + 1)
                kinds[kind] += 1
        log = server.requests()
    assert Counter(entry["kind"] for entry in log) == kinds
    assert [entry["number"] for entry in log] == list(range(1, 51))
    assert len({entry["crc32"] for entry in log}) == 1


def test_reset_is_a_reset() -> None:
    with GoldenServer(reset_every=2, delay_s=0.02) as server:
        with connect(server) as connection:
            exchange(connection)
            with pytest.raises(ConnectionResetError):
                exchange(connection)
        first, second = server.requests()
    assert first["written_ns"] is not None
    assert (second["kind"], second["written_ns"]) == ("reset", None)


def test_truncated_body() -> None:
    with GoldenServer(truncate_every=1) as server, connect(server) as connection:
        with pytest.raises(ConnectionError, match="inside the body"):
            exchange(connection)
        assert [entry["kind"] for entry in server.requests()] == ["truncate"]


def test_never_answers() -> None:
    with GoldenServer(never_every=1) as server:
        with connect(server, timeout_s=0.3) as connection, pytest.raises(TimeoutError):
            exchange(connection)
        [entry] = server.requests()
    assert (entry["kind"], entry["written_ns"]) == ("never", None)


def test_slow_response_comes_in_pieces() -> None:
    with GoldenServer(slow_every=1, slow_s=0.2, slow_pieces=5, delay_s=0.05) as server, connect(server) as connection:
        begin = time.monotonic()
        connection.sendall(body())
        first = connection.recv(1)
        first_s = time.monotonic() - begin
        rest, pieces = b"", 0
        while b"OUTPUT0" not in rest or not rest.endswith(struct.pack("<f", 63.0)):
            rest += connection.recv(65536)
            pieces += 1
        last_s = time.monotonic() - begin
        [entry] = server.requests()
    assert first == b"H"
    assert first_s >= 0.05
    assert last_s >= 0.25
    assert pieces >= 2
    assert entry["due_ns"] - entry["arrival_ns"] == 250_000_000
