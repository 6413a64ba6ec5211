"""Endings of a locustfile's run: errors, signals and crashes, each with a result that names the cause."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servemark.figures.registry import count_of, value_of
from servemark.paths import CHECKOUT
from servemark.workload import get
from tests.support.locust_run import DEADLINE_S, command, run, server_of, started, the_result, until
from tests.support.result_checks import check_counts, constraint, counted_result

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


def test_a_signal_during_the_warm_up(tmp_path: Path) -> None:
    with server_of(get("ranking_tiny")) as server:
        flags = [*TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "40"]
        with started(command("ranking", *flags), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 20, "load")
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 2
        received = server.requests()
    result = counted_result(tmp_path, len(received))
    assert (result["partial"], result["windows"], value_of(result, "requests.answered")) == (True, [], 0)
    # Nothing was measured, and nothing is 0: neither the rates nor the CPU, and the generator limited nothing.
    assert value_of(result, "throughput.requests") is None
    assert value_of(result, "generator.cpu") is None
    assert result["verdict"]["skipped"].keys() == {"client_cpu", "other_load", "steady_state"}
    assert result["bottleneck"]["by"] is None


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


@pytest.mark.parametrize("streams", [("stderr",), ("stdout", "stderr")])
def test_a_full_disk_under_its_words_does_not_end_a_run(streams: tuple[str, ...], tmp_path: Path) -> None:
    with server_of(get("ranking_tiny"), delay_s=0.005) as server, Path("/dev/full").open("w") as full:
        flags = [*TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "0", "--duration", "2.5"]
        nowhere: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        done = subprocess.run(
            command("ranking", *flags, "--request-rate", "50"),
            cwd=CHECKOUT,
            timeout=60,
            check=False,
            **nowhere | dict.fromkeys(streams, full),
        )
    result = the_result(tmp_path)
    assert result["partial"] is False
    assert result["scenario"]["measured_s"] == 2.5
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
        flags = [*TINY, "--url", server.url, "--out", str(tmp_path), "--warmup", "3", "--duration", "0.5"]
        with started(command("ranking", *flags, "--request-rate", "50"), tmp_path / "log") as process:
            until(lambda: len(server.requests()) > 5, "load")
            os.kill(server.pid, signal.SIGKILL)
            assert process.wait(DEADLINE_S) == 2
    assert constraint(the_result(tmp_path), "server_alive")["ok"] is False
