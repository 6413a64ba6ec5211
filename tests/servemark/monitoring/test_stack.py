"""Programs that watch a run: their files, started with the tools of the machine, and dashboards into a Grafana."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from dashboards import FOLDER
from dashboards.build import DASHBOARDS
from servemark.errors import ServerError
from servemark.monitoring.stack import DATA_SOURCE, container_engine, export, load_dashboards
from servemark.paths import CHECKOUT
from tests.support.command_line import BAD_INPUT, Servemark
from tests.support.locust_run import until
from tests.support.prometheus import ask, needs_prometheus
from tests.support.rest_server import Answer, RestServer, running

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


@pytest.mark.parametrize("broken", [None, "ps", "compose"])
def test_a_machine_without_prometheus_and_an_engine_that_answers_and_has_compose(
    broken: str | None, bin_folder: Path, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken:
        (bin_folder / "docker").write_text(f"#!/bin/sh\n[ $1 != {broken} ]\n")
        (bin_folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    done = servemark("dashboards", "up", "--data", str(bin_folder / "data"))
    assert done.code == BAD_INPUT
    assert "neither a container engine" in done.err
    assert "apt-get install prometheus" in done.err
    assert not (bin_folder / "data").exists()


def test_podman_is_taken_where_docker_does_not_answer(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, code in (("docker", 1), ("podman", 0)):
        (bin_folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    assert container_engine() == [str(bin_folder / "podman"), "compose"]


def test_containers(bin_folder: Path, tmp_path: Path) -> None:
    engine, log, models = bin_folder / "docker", tmp_path / "log", tmp_path / "models"
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


SETTINGS = "prometheus/prometheus.yml"


def test_all_files_are_written_with_what_is_to_be_scraped(tmp_path: Path) -> None:
    written = export(tmp_path, generator="10.0.0.1:1", triton="10.0.0.2:2")
    assert {path.stem for path in (tmp_path / "grafana" / "json").glob("*.json")} == set(DASHBOARDS)
    assert {path.suffix for path in written} == {".json", ".yaml", ".yml"}
    for job, address in (("servemark", "10.0.0.1:1"), ("triton", "10.0.0.2:2")):
        targets = json.loads((tmp_path / "prometheus" / "targets" / f"{job}.json").read_text())
        assert targets == [{"targets": [address]}]


def test_files_refer_to_what_is_written(tmp_path: Path) -> None:
    export(tmp_path)
    settings = yaml.safe_load((tmp_path / SETTINGS).read_text())
    named = settings["rule_files"] + [
        file for job in settings["scrape_configs"] for found in job["file_sd_configs"] for file in found["files"]
    ]
    assert all(list((tmp_path / "prometheus").glob(name)) for name in named)
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    mounts = [v for service in services.values() for v in service["volumes"] if v["source"].startswith("./")]
    assert mounts
    assert all((tmp_path / mount["source"]).is_dir() for mount in mounts)


def test_the_defaults_are_those_of_the_files(tmp_path: Path) -> None:
    for path in export(tmp_path):
        found, ours = path.read_text(), (FOLDER / path.relative_to(tmp_path)).read_text()
        assert json.loads(found) == json.loads(ours) if path.suffix == ".json" else found == ours


def test_files_of_somebody_are_kept(tmp_path: Path, servemark: Servemark) -> None:
    assert servemark("dashboards", "export", str(tmp_path)).code == 0
    assert servemark("dashboards", "export", str(tmp_path)).code == 0, "the same again is no conflict"
    (tmp_path / SETTINGS).write_text("mine")
    done = servemark("dashboards", "export", str(tmp_path))
    assert (done.code, "--force" in done.err, SETTINGS in done.err) == (BAD_INPUT, True, True)
    assert (tmp_path / SETTINGS).read_text() == "mine"
    done = servemark("dashboards", "export", str(tmp_path), "--force", "--json")
    assert set(json.loads(done.out)["files"]) >= {SETTINGS, "compose.yaml", "grafana/json/latency.json"}
    assert (tmp_path / SETTINGS).read_text() != "mine"


@pytest.mark.slow
def test_the_wheel_has_the_files(tmp_path: Path) -> None:
    """Built from the checkout: an installed package exports the same."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "-q"]
    subprocess.run([*command, str(CHECKOUT)], check=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    there = tmp_path / "there"
    program = f"from pathlib import Path; from servemark.monitoring.stack import export; export(Path({str(there)!r}))"
    installed = str(tmp_path / "installed")
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, cwd=installed, timeout=60, env={"PYTHONPATH": installed})
    names = {path.relative_to(tmp_path / "here") for path in export(tmp_path / "here")}
    assert {path.relative_to(there) for path in there.rglob("*") if path.is_file()} == names


TOKEN = "glsa_secret"  # noqa: S105


class Grafana(RestServer):
    """Answers as Grafana 13 documents: 409 for what is there, 401 without the token."""

    def __init__(self) -> None:
        super().__init__(f"Bearer {TOKEN}")
        self.sources: dict[str, Any] = {}
        self.folders: dict[str, Any] = {}
        self.dashboards: dict[str, Any] = {}

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        sent = json.loads(body)
        kept = {"/api/datasources": self.sources, "/api/folders": self.folders}
        if method == "POST" and path in kept:
            known = sent["uid"] in kept[path]
            kept[path].setdefault(sent["uid"], sent)
            return (409, {"message": "exists"}) if known else (200, {"id": 1})
        if method == "PUT" and path.startswith("/api/datasources/uid/"):
            self.sources[path.rpartition("/")[2]] = sent
            return 200, {"id": 1}
        if (method, path) == ("POST", "/api/dashboards/db") and sent["folderUid"] in self.folders:
            uid = sent["dashboard"]["uid"]
            if uid in self.dashboards and not sent["overwrite"]:
                return 412, {"message": "exists"}
            self.dashboards[uid] = sent["dashboard"]
            return 200, {"url": f"/d/{uid}/name"}
        return 404, {"message": "not found"}


def test_every_dashboard_asks_the_prometheus_that_was_named(servemark: Servemark, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with running(Grafana()) as grafana:
        for url in ("http://127.0.0.1:9090", "http://127.0.0.1:9091"):  # the second load replaces the first
            done = servemark("dashboards", "load", grafana.url, "--prometheus", url, "--token-file", str(token))
            assert done.code == 0, done.err
    assert done.out.split() == [f"{grafana.url}/d/servemark-{name}/name" for name in sorted(DASHBOARDS)]
    [source] = grafana.sources.values()
    assert source["url"] == "http://127.0.0.1:9091"
    assert set(grafana.dashboards) == {f"servemark-{name}" for name in DASHBOARDS}
    for dashboard in grafana.dashboards.values():
        chosen = [each["current"]["value"] for each in dashboard["templating"]["list"] if each["type"] == "datasource"]
        assert chosen == [DATA_SOURCE["uid"]]


def test_what_cannot_be_loaded_says_why_and_shows_no_token(servemark: Servemark, tmp_path: Path) -> None:
    with running(Grafana()) as grafana, pytest.raises(ServerError, match="401 Unauthorized") as error:
        load_dashboards(grafana.url, "http://127.0.0.1:9090", "wrong")
    assert ("wrong" in error.value.what, grafana.dashboards) == (False, {})
    with pytest.raises(ServerError, match=r"no Grafana answers at [^ ]*: Connection refused\n"):
        load_dashboards(grafana.url, "http://127.0.0.1:9090", TOKEN)
    done = servemark("dashboards", "load", grafana.url, "--token-file", str(tmp_path / "absent"))
    assert (done.code, "--token-file" in done.err) == (BAD_INPUT, True)
