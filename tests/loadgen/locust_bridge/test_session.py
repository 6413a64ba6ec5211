"""Endings of a locustfile's run: errors, signals and crashes, each with a result that names the cause."""

import json
import os
import signal
import subprocess
import time
from argparse import ArgumentParser
from pathlib import Path
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
from servemark.figures.registry import count_of, value_of
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.load_config import request_of
from tests.support.locust_run import DEADLINE_S, command, run, server_of, started, the_result, until
from tests.support.result_checks import check_counts, constraint

SHORT = ["--duration", "0.6", "--warmup", "0.1"]
TINY = ["--model", "ranking_tiny"]


def test_a_closed_loop_that_is_no_longer_answered_ends(tmp_path: Path) -> None:
    """Each connection waits for an answer that does not come."""
    with server_of(get("ranking_tiny"), never_every=2) as server:
        flags = ["--duration", "0.5", "--warmup", "0.2", "--concurrency", "2", "--request-timeout", "1"]
        run("ranking", *TINY, *flags, "--url", server.url, "--out", str(tmp_path))
    result = the_result(tmp_path)
    assert (result["partial"], result["scenario"]["measured_s"] > 0.5) == (False, True)
    assert result["details"]["errors"]["by_kind"]["timeout"] >= 2
    assert "--request-timeout" in constraint(result, "error_rate")["remedy"]


def test_errors_make_a_run_invalid_and_locusts_own_run_time_is_its_duration(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005, error_every=4) as server:
        flags = ["-t", "1s", "--warmup", "0.1", "--request-rate", "200"]
        done = run("ranking", *TINY, *flags, "--url", server.url, "--out", str(tmp_path))
        received = server.requests()
    result = the_result(tmp_path)
    check_counts(result, len(received))
    errors = result["details"]["errors"]
    assert done.returncode == 2
    assert errors["by_kind"].keys() == {"http_500"}
    assert value_of(result, "errors.share") == pytest.approx(0.25, abs=0.02)
    assert "golden error on request" in errors["messages"]["http_500"][0]
    assert not constraint(result, "error_rate")["ok"]
    assert (result["partial"], result["scenario"]["duration_s"]) == (False, 1)
    assert result["scenario"]["measured_s"] >= 1
    assert constraint(result, "completed")["ok"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "no_such"], "unknown workload 'no_such'"),
        (["-t", "5s", "--duration", "3s"], "--run-time and --duration 3s"),
    ],
)
def test_bad_flags_end_locust_with_exit_code_3(flags: list[str], words: str, tmp_path: Path) -> None:
    done = run("ranking", "--out", str(tmp_path), *flags)
    assert done.returncode == 3
    assert words in done.stderr
    assert "Traceback" not in done.stderr


CRASH = """
from loadgen.measurement.recorder import WIDTH, Recorder
from loadgen.users import InferenceUser

tick = Recorder.tick

def crash(self, now, due=None):
    if self.scheduled + self.outside + len(self._raw) // WIDTH >= 100:
        raise RuntimeError("a bug of ours")
    tick(self, now, due)

Recorder.tick = crash

class Ranking(InferenceUser):
    locustfile = "ranking"
"""


def test_a_crash_inside_the_measurement_leaves_a_partial_result(tmp_path: Path) -> None:
    locustfile = tmp_path / "crashing.py"
    locustfile.write_text(CRASH)
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        done = run(locustfile, *TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "0", "--users", "4")
    result = the_result(tmp_path)
    assert done.returncode == 99
    assert "a bug of ours" in done.stderr
    assert result["partial"] is True
    # the first of them came before the interval
    good = count_of(result, "requests.answered")
    assert 95 <= good + count_of(result, "generator.requests_outside_interval") <= 150
    assert good > 30


def test_a_full_disk_under_its_words_does_not_end_a_run(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server, Path("/dev/full").open("w") as full:
        flags = [*TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "0", "--duration", "1.5"]
        line = command("ranking", *flags, "--request-rate", "50")
        done = subprocess.run(line, cwd=CHECKOUT, timeout=60, check=False, stdout=full, stderr=full)
    result = the_result(tmp_path)
    assert (result["partial"], result["scenario"]["measured_s"]) == (False, 1.5)
    assert done.returncode == result["verdict"]["exit_code"]


UNWRITABLE = """
from loadgen.users import InferenceUser
from servemark.results import directory

write = directory.write

def broken(folder, result, histograms=None):
    if histograms:
        raise ValueError("Out of range float values are not JSON compliant")
    return write(folder, result)

directory.write = broken

class Ranking(InferenceUser):
    locustfile = "ranking"
"""


def test_whatever_fails_while_the_result_is_written_the_figures_are_shown(tmp_path: Path) -> None:
    locustfile = tmp_path / "unwritable.py"
    locustfile.write_text(UNWRITABLE)
    with server_of(get("ranking_tiny"), delay_s=0.005) as server:
        done = run(locustfile, *TINY, "--url", server.url, "--out", str(tmp_path), *SHORT)
    assert done.returncode == 99
    document = done.stdout[done.stdout.index("{\n") : done.stdout.index("\n}\n") + 3]
    assert count_of(json.loads(document), "requests.answered") > 10


def test_a_server_that_dies_during_the_warm_up_was_not_alive(tmp_path: Path) -> None:
    """It has no counters at either edge of the interval then, as a server that never had some."""
    with server_of(get("ranking_tiny")) as server:
        flags = [*TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "1.5", "--duration", "0.5"]
        with started(command("ranking", *flags, "--request-rate", "50"), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 5, "load")
            os.kill(server.pid, signal.SIGKILL)
            assert process.wait(DEADLINE_S) == 2
    assert constraint(the_result(tmp_path), "server_alive")["ok"] is False


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
