"""Locust's web UI: our flags are its fields, and a run started there is measured like one from the command line."""

import socket
import subprocess
from pathlib import Path

import requests

from servemark.figures.registry import count_of
from servemark.paths import CHECKOUT
from tests.support.locust_run import accounted, command, results_in, until
from tests.support.result_checks import constraint
from tests.support.web import web_ui

FIELDS = {
    "model", "engine", "request_rate", "request_distribution", "duration", "warmup", "batch_size", "slo", "input_data",
    "seed", "stages", "arrival_trace", "trace_speed", "gamma_cv",
}  # fmt: skip


def test_our_flags_are_fields_and_runs_are_measured(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        options = web.options()
        assert options.keys() >= FIELDS
        assert options.keys().isdisjoint({"out", "result_dir", "model_repository", "serve", "url", "concurrency"})
        assert options["request_distribution"]["choices"] == ["poisson", "constant", "gamma"]
        assert all(options[name]["help_text"] for name in FIELDS)

        web.swarm()
        [closed] = web.finished(1)
        web.swarm(request_rate="100", request_distribution="constant", duration="1")
        _, opened = web.finished(2)
        # cleared again, as the field is by hand
        web.swarm(request_rate="", user_count="2")
        *_, last = web.finished(3)
        received = len(web.server.requests())
    assert (closed["request"]["load"]["kind"], closed["request"]["load"]["concurrency"]) == ("closed-loop", 3)
    assert (opened["request"]["load"]["kind"], opened["request"]["load"]["rate"]) == ("constant-rate", 100)
    assert (last["request"]["load"]["kind"], last["request"]["load"]["concurrency"]) == ("closed-loop", 2)
    assert not any(result["partial"] for result in (closed, opened, last))
    assert count_of(opened, "requests.answered") == 100
    assert sum(accounted(result) for result in (closed, opened, last)) == received


def test_stopping_and_bad_values(tmp_path: Path) -> None:
    with web_ui(tmp_path) as web:
        web.swarm(slo="soon")
        until(lambda: "--slo 'soon' is not pXX:LIMIT" in web.log.read_text(), "the message")
        until(web.stopped, "the end of the run")
        assert results_in(web.out) == []

        web.swarm(slo="p90:100", duration="60")
        until(lambda: len(web.server.requests()) > 100, "load")
        assert requests.post(f"{web.url}/stop", timeout=30).ok
        [stopped] = web.finished(1)
        received, log = len(web.server.requests()), web.log.read_text()
    assert stopped["partial"] is True
    assert accounted(stopped) == received
    assert count_of(stopped, "requests.answered") > 50
    assert "stopped before its end" in constraint(stopped, "completed")["remedy"]
    assert "Traceback" not in log


def test_a_taken_port_is_told() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        line = command("ranking", f"--web-port={port}", headless=False)
        done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    assert f"the web UI cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "fix: --web-port PORT" in done.stderr
    assert "Traceback" not in done.stderr
