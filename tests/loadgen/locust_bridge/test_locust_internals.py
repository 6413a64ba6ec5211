"""Locust's internals as we read them, against the installed Locust."""

import errno
import itertools
import logging
import time

import gevent
import msgpack  # type: ignore[import-untyped]  # it has no stubs
import pytest
from gevent import GreenletExit
from locust import __version__, argument_parser, runners, stats
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.rpc import Message
from locust.rpc.zmqrpc import Client

from loadgen.locust_bridge.locust_internals import (
    ALL_REQUESTS,
    adapt_tables,
    count_heartbeats_steadily,
    leave_with_own_code,
    pass_over_garbage,
    remember_default_options,
    request_listeners,
    watch_on_without_descriptors,
)
from servemark.errors import ExitCode


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


def test_who_listens_to_requests_is_known_at_any_time() -> None:
    environment = Environment()
    environment.create_local_runner()
    listeners, own = request_listeners(environment)
    assert listeners == own != []
    environment.events.request.add_listener(lambda **_: None)
    assert len(listeners) == len(own) + 1


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
