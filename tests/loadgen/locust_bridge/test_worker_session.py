"""A worker's side of Locust: what it answers by itself, and whose options count."""

import time
from argparse import ArgumentParser
from types import SimpleNamespace
from typing import Any

import pytest
from locust import argument_parser
from locust.env import Environment
from locust.runners import WorkerRunner

from loadgen.distributed.messages import MESSAGE
from loadgen.load.load_config import LoadConfig, in_zoo
from loadgen.locust_bridge import session as sessions
from loadgen.locust_bridge.session import WorkerSession
from servemark.documents.flags import locust_arguments
from tests.support.load_config import request_of


class Runner(WorkerRunner):
    """The part of Locust's runner that a session uses, without a master to connect to."""

    last_heartbeat_timestamp: float | None = None

    def __init__(self) -> None:  # no connection: the base class would make one
        self.greenlet = None  # looked at when it is collected
        self.sent: list[dict[str, Any]] = []
        self.heard: dict[str, Any] = {}

    def register_message(self, msg_type: str, listener: Any, concurrent: bool = False) -> None:  # noqa: ARG002 - Locust's signature
        self.heard[msg_type] = listener

    def send_message(self, msg_type: str, data: Any = None, client_id: str | None = None) -> None:  # noqa: ARG002 - Locust's signature
        assert msg_type == MESSAGE
        self.sent.append(data)


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def session(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> WorkerSession:
    """A session that has begun, of a worker with files of its own."""
    monkeypatch.setitem(vars(argument_parser), "default_args_dict", argument_parser.default_args_dict)
    parser = ArgumentParser()
    for option, settings in locust_arguments(["ranking_tiny"]):
        settings.pop("include_in_web_ui", None)
        parser.add_argument(option.spelled, **settings)
    options = parser.parse_args(["--model-repository", "/here", "--seed", "1", "--duration", "1"])
    environment = Environment(parsed_options=options)
    environment.runner = runner
    made = WorkerSession(environment, in_zoo)
    made.begin()
    return made


def test_a_ping_is_answered_at_once_by_the_own_clock(session: WorkerSession, runner: Runner) -> None:
    before = time.monotonic_ns()
    runner.heard[MESSAGE](environment=None, msg=SimpleNamespace(data={"run": "r", "kind": "ping", "sent_ns": 5}))
    [pong] = runner.sent
    assert before <= pong.pop("clock_ns") <= time.monotonic_ns()
    assert pong == {"run": "r", "kind": "pong", "sent_ns": 5}
    assert session.orders.empty()


def test_other_orders_wait_for_the_run(session: WorkerSession, runner: Runner) -> None:
    runner.heard[MESSAGE](environment=None, msg=SimpleNamespace(data={"run": "r", "kind": "begin", "start_ns": 5}))
    assert session.orders.get_nowait()["kind"] == "begin"
    assert runner.sent == []


def test_the_load_is_the_master_s_and_its_files_are_this_host_s(session: WorkerSession) -> None:
    theirs = request_of("ranking_tiny", "--model-repository", "/there", "--seed", "9", "--request-rate", "5")
    settings = LoadConfig.of(session._local(theirs), address="http://h:1")
    assert (settings.seed, settings.scenario.rate, str(settings.model_repository)) == (9, 5, "/here")


def test_the_master_s_silence_is_counted_from_its_last_sign_of_life(
    session: WorkerSession, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that nobody sets: Locust notes the wall clock's time, here an hour off."""
    now_s = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time=lambda: pytest.fail("the wall clock was asked"))
    monkeypatch.setattr(sessions, "time", clock)
    assert session._master_silent_s() == 0
    runner.last_heartbeat_timestamp = 5000.0
    assert session._master_silent_s() == 0
    now_s += 30
    assert session._master_silent_s() == 30
    runner.last_heartbeat_timestamp -= 3600
    assert session._master_silent_s() == 0
    now_s += 7
    assert session._master_silent_s() == 7


def test_a_worker_s_failed_requests_are_the_master_s_business(session: WorkerSession) -> None:
    assert session.environment.process_exit_code == 0
    session.stop()  # nothing runs
