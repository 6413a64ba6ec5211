"""Programs that watch a run: started with the tools of the machine, found on loopback, and gone afterwards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from servemark.paths import CHECKOUT
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import until
from tests.support.prometheus import ask, needs_prometheus

START_S = 60
ENTRY = "ranking_tiny_onnxruntime"
DOUBLE = f"""#!{sys.executable}
# An engine that writes down what it is asked, and answers as the containers of compose.yaml would.
import http.server, os, pathlib, sys, threading
asked = " ".join(sys.argv[1:])
names = ("SERVEMARK_MODEL_REPOSITORY", "SERVEMARK_ENTRY", "PROMETHEUS_PORT", "GRAFANA_PORT")
with open(os.environ["DOUBLE_LOG"], "a") as log:
    log.write(asked + " | " + " ".join(os.environ.get(name, "-") for name in names) + "\\n")

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/-/ready", "/api/health") else 404)
        self.end_headers()
    def log_message(self, *_): pass

if asked.endswith(" up"):
    for name in ("PROMETHEUS_PORT", "GRAFANA_PORT"):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ[name])), Answer)
        threading.Thread(target=server.serve_forever).start()
"""


@contextmanager
def up(arguments: Sequence[str], path: Path, **environment: str) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """The command with PATH set to a folder, and the JSON that it prints once all answers."""
    command = [sys.executable, "-m", "servemark", "dashboards", "up", *arguments, "--json"]
    options = {**os.environ, **environment, "PATH": str(path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT, env=options) as process:
        try:
            assert process.stdout
            text = ""
            for line in process.stdout:
                text += line
                if line == "}\n":
                    break
            yield process, json.loads(text)
        finally:
            process.kill()


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A PATH with nothing on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def test_a_machine_that_has_neither(bin_folder: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bin_folder))
    done = servemark("dashboards", "up", "--data", str(bin_folder / "data"))
    assert done.code == BAD_INPUT
    assert "apt-get install prometheus" in done.err
    assert not (bin_folder / "data").exists()


@pytest.mark.parametrize("broken", ["ps", "compose"])
def test_an_engine_that_does_not_answer_or_has_no_compose_is_none(
    broken: str, bin_folder: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = bin_folder / "docker"
    engine.write_text(f"#!/bin/sh\n[ $1 != {broken} ]\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    assert "neither a container engine" in servemark("dashboards", "up").err


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_containers(name: str, bin_folder: Path, tmp_path: Path) -> None:
    engine, log, models = bin_folder / name, tmp_path / "log", tmp_path / "models"
    engine.write_text(DOUBLE)
    engine.chmod(0o755)
    (models / ENTRY).mkdir(parents=True)
    (models / ENTRY / "config.pbtxt").touch()
    ports = ["--prometheus-port", "0", "--grafana-port", "0"]
    data = tmp_path / "data"
    options = [ENTRY, *ports, "--data", str(data), "--model-repository", str(models)]
    with up(options, bin_folder, DOUBLE_LOG=str(log)) as (process, said):
        assert requests.get(f"{said['grafana']}/api/health", timeout=5).ok
        process.send_signal(signal.SIGINT)
        assert process.wait(START_S) == 0
    *_, started, ended = log.read_text().splitlines()
    settings = " ".join([str(models), ENTRY, *(said[name].rpartition(":")[2] for name in ("prometheus", "grafana"))])
    compose = f"compose --file {data}/compose.yaml"
    assert (started.startswith(compose), started.endswith(f" up | {settings}")) == (True, True)
    assert (ended.startswith(compose), ended.endswith(f" down | {settings}")) == (True, True)


def test_containers_need_the_entry_that_triton_serves(
    bin_folder: Path, tmp_path: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bin_folder / "docker").write_text("#!/bin/sh\n")
    (bin_folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    done = servemark("dashboards", "up", ENTRY, "--model-repository", str(tmp_path), "--prometheus-port", "0")
    assert done.code == BAD_INPUT
    assert "servemark export ranking_tiny --engine onnxruntime" in done.err


@needs_prometheus
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_prometheus_of_this_machine(ending: signal.Signals, bin_folder: Path, tmp_path: Path) -> None:
    (bin_folder / "prometheus").symlink_to(str(shutil.which("prometheus")))
    data = tmp_path / "data"
    scraped = ["--metrics", "127.0.0.1:9", "--triton-metrics", "127.0.0.1:19"]
    with up(["--prometheus-port", "0", "--data", str(data), *scraped], bin_folder) as (process, said):
        assert said == {"prometheus": said["prometheus"], "grafana": None, "folder": str(data)}
        [server] = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "prometheus"]
        [listening] = [c.laddr for c in server.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert listening == ("127.0.0.1", int(said["prometheus"].rpartition(":")[2]))
        until(lambda: len(ask(said["prometheus"], "targets")["activeTargets"]) == 2, "both jobs")
        targets = ask(said["prometheus"], "targets")["activeTargets"]
        assert {target["scrapeUrl"] for target in targets} == {f"http://127.0.0.1:{port}/metrics" for port in (9, 19)}
        groups = ask(said["prometheus"], "rules")["groups"]
        assert {rule["type"] for group in groups for rule in group["rules"]} == {"recording", "alerting"}
        process.send_signal(ending)
        assert process.wait(START_S) == (0 if ending == signal.SIGINT else -ending)
        deadline = time.monotonic() + START_S
        while server.is_running():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert (data / "data").is_dir(), "what was measured stays"
