"""Locust's internals as we read them, against the installed Locust, and its statistics against the same events."""

import errno
import itertools
import logging
import time
from typing import Any

import gevent
import msgpack  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import numpy.typing as npt
import pytest
from gevent import GreenletExit
from gevent.monkey import saved
from locust import __version__, argument_parser, runners, stats
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.rpc import Message
from locust.rpc.zmqrpc import Client

from loadgen.locust_bridge.locust_internals import (
    ALL_REQUESTS,
    METHOD,
    LocustStatistics,
    adapt_tables,
    count_heartbeats_steadily,
    leave_with_own_code,
    pass_over_garbage,
    remember_default_options,
    watch_on_without_descriptors,
)
from loadgen.sut.channel import Outcome, Payload
from servemark.errors import ExitCode

MS = 1_000_000
LATENCIES_MS = [0.2, 0.5, 1.5, 2.5, 99.4, 99.6, 104.9, 105.1, 949.0, 1049.0, 30_123.0]


def test_a_bad_flag_ends_locust_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    parser = LocustArgumentParser()
    leave_with_own_code(parser)
    with pytest.raises(SystemExit) as bad:
        parser.parse_args(["--no-such-flag"])
    with pytest.raises(SystemExit) as asked:
        parser.parse_args(["--help"])
    assert (bad.value.code, asked.value.code) == (ExitCode.LOCUST, 0)
    assert "--no-such-flag" in capsys.readouterr().err


def test_the_default_options_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    monkeypatch.setitem(vars(argument_parser), "default_args_dict", lambda: {"call": next(calls)})
    remember_default_options()
    assert argument_parser.default_args_dict() == argument_parser.default_args_dict() == {"call": 0}


def test_no_descriptor_is_left_for_the_watch_over_cpu_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Locust's own ends with a traceback in the middle of the run, where connections have taken all descriptors."""
    tries = itertools.count()

    def watch(_: runners.Runner) -> None:
        if next(tries) < 2:
            raise OSError(errno.EMFILE, "Too many open files", "/proc/1/stat")
        raise GreenletExit

    monkeypatch.setattr(runners, "CPU_MONITOR_INTERVAL", 0.001)
    monkeypatch.setattr(runners.Runner, "monitor_cpu_and_memory", watch)
    watch_on_without_descriptors()
    runner = Environment(user_classes=[]).create_local_runner()
    try:
        with gevent.Timeout(30):
            while next(tries) < 4:
                gevent.sleep(0.001)
    finally:
        runner.quit()
    assert "Traceback" not in caplog.text


GARBAGE = [
    b"", b"\xc1", b"\x90", b"\x93", msgpack.dumps("text"), msgpack.dumps([1, 2]), msgpack.dumps([1, None, "stranger"]),
    msgpack.dumps(["client_ready", 7, "stranger"]), msgpack.dumps(["heartbeat", None, "stranger"]), b"GET / HTTP/1.1",
    msgpack.dumps(["stats", {}, "somebody else"]), msgpack.dumps(["exception", None, "stranger"]),
]  # fmt: skip


def test_a_master_reads_on_after_garbage() -> None:
    """Before, the first packet that is not msgpack ended the greenlet that reads: workers were never counted."""
    pass_over_garbage()
    runner = Environment(user_classes=[]).create_master_runner("127.0.0.1", 0)
    stranger, worker = (Client("127.0.0.1", runner.server.port, name) for name in ("stranger", "worker"))
    try:
        for packet in GARBAGE:
            stranger.socket.send(packet)
        for name, client in (("stranger", stranger), ("worker", worker)):
            client.send(Message("client_ready", __version__, name))
        with gevent.Timeout(30):
            while "worker" not in runner.clients:
                gevent.sleep(0.01)
        for packet in GARBAGE:
            worker.socket.send(packet)
        worker.send(Message("client_stopped", None, "worker"))
        with gevent.Timeout(30):
            while "worker" in runner.clients:
                gevent.sleep(0.01)
        assert [*runner.clients] == ["stranger"]
    finally:
        for client in (stranger, worker):
            client.close(linger=0)
        runner.greenlet.kill(block=True)
        runner.server.close(linger=0)


def test_a_clock_that_is_set_moves_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(runners), "time", time)
    count_heartbeats_steadily()
    clock = vars(runners)["time"]
    before = clock.time()
    monkeypatch.setattr(time, "time", lambda: 4_000_000_000.0)
    assert 0 <= clock.time() - before < 3600
    assert clock.sleep is time.sleep


def test_the_last_tables_say_that_they_count_the_warm_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("print_stats", "print_percentile_stats", "print_error_report"):
        monkeypatch.setitem(vars(stats), name, getattr(stats, name))
    adapt_tables()
    monkeypatch.setattr(stats.console_logger, "propagate", True)
    caplog.set_level(logging.INFO, logger=stats.console_logger.name)
    found = stats.RequestStats()
    stats.print_stats(found, current=False)
    assert not caplog.messages
    found.log_request("infer", "ranking", 5, 100)
    stats.print_stats(found)
    assert ALL_REQUESTS not in caplog.messages
    stats.print_stats(found, current=False)
    assert caplog.messages.count(ALL_REQUESTS) == 1


def times(*latencies_ms: float) -> npt.NDArray[np.int64]:
    """Requests that took so long; answers of 1,000 bytes."""
    return np.array([(5, 5, 5 + round(latency_ms * MS), 1000) for latency_ms in latencies_ms])


@pytest.fixture
def environment() -> Environment:
    made = Environment()
    made.create_local_runner()
    return made


def statistics_of(environment: Environment) -> LocustStatistics:
    made = LocustStatistics(environment)
    made.begin("m")
    return made


def locusts(environment: Environment, name: str = "m") -> dict[str, Any]:
    """Return Locust's statistics of a name, apart from wall-clock times."""
    entry = environment.stats.entries[name, METHOD]
    known = {key: getattr(entry, key) for key in ("num_requests", "num_failures", "total_content_length")}
    known |= {key: getattr(entry, key) for key in ("min_response_time", "max_response_time", "median_response_time")}
    known |= {"response_times": dict(entry.response_times), "failed": sum(entry.num_fail_per_sec.values())}
    return known | {"mean": pytest.approx(entry.avg_response_time), "seconds": sum(entry.num_reqs_per_sec.values())}


def test_requests_added_together_are_what_events_would_have_made_of_them(environment: Environment) -> None:
    statistics = statistics_of(environment)
    assert statistics._listeners == statistics._own != []
    for some in (LATENCIES_MS[:5], LATENCIES_MS[5:]):
        statistics.good(times(*some))
    for latency_ms in LATENCIES_MS:
        environment.events.request.fire(
            request_type=METHOD, name="one by one", response_time=latency_ms, response_length=1000, context={}
        )
    assert locusts(environment) == locusts(environment, "one by one")
    assert environment.stats.total.num_requests == 2 * len(LATENCIES_MS)
    assert environment.stats.total.last_request_timestamp is not None


def test_a_users_own_buckets_are_kept(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "bucket_response_time", lambda _ms: 7)
    statistics_of(environment).good(times(*LATENCIES_MS))
    assert locusts(environment)["response_times"] == {7: len(LATENCIES_MS)}


def test_failed_requests_are_events_at_once(environment: Environment) -> None:
    statistics = statistics_of(environment)
    for latency_ms, error, words in ((1, "http_500", "no memory"), (30, "timeout", "late")):
        statistics.failed(Outcome(Payload(b""), 5, 5, 5 + latency_ms * MS, error, "", None), words)
    assert locusts(environment)["num_failures"] == 2
    assert {error.error for error in environment.stats.errors.values()} == {"http_500: no memory", "timeout: late"}


def test_another_listener_sees_every_request_from_when_it_listens(environment: Environment) -> None:
    seen: list[float] = []

    def listen(response_time: float, **_: Any) -> None:
        seen.append(response_time)

    statistics = statistics_of(environment)
    statistics.good(times(1.0))
    environment.events.request.add_listener(listen)
    statistics.good(times(2.0, 3.0))
    environment.events.request.remove_listener(listen)
    statistics.good(times(4.0))
    assert seen == [2.0, 3.0]
    assert locusts(environment)["num_requests"] == 4


def test_a_listener_in_locusts_place_sees_every_request(environment: Environment) -> None:
    """Somebody may take away Locust's own listener for the sake of theirs."""
    seen: list[str] = []
    environment.events.request._handlers.clear()
    environment.events.request.add_listener(lambda name, **_: seen.append(name))
    statistics_of(environment).good(times(1.0))
    assert seen == ["m"]


def test_nothing_is_patched_here() -> None:
    """Keep the promise of tests/loadgen/conftest.py to every other test of this process."""
    assert saved == {}
