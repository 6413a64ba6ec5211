"""Prometheus and the dashboards: their files, both started until they are stopped, or loaded into a Grafana."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests

from dashboards import EXPORTED, FOLDER
from servemark.documents.commands.show import DashboardsUp
from servemark.documents.live import GENERATOR, TRITON
from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.monitoring import send, session_with
from servemark.repository.entry import CONFIG, how_to_make
from servemark.repository.names import checked_model
from servemark.telemetry.scrape_targets import TARGETS
from servers.launch.process import Command, Process, claim_ports, request, wait_until_ready


def export(folder: Path, *, generator: str = GENERATOR, triton: str = TRITON, force: bool = False) -> list[Path]:
    """Write dashboards, rules, provisioning and compose files; the addresses ("host:port") are what is scraped.

    Raises OptionError, before anything is written, where a file of another content is there and not `force`; and where
    the folder cannot be written.
    """
    contents = dict(_contents())
    for job, address in (("servemark", generator), ("triton", triton)):
        contents[f"{TARGETS}/{job}.json"] = (json.dumps([{"targets": [address]}]) + "\n").encode()
    written = {folder / name: content for name, content in contents.items()}
    changed = [path for path, content in written.items() if path.exists() and path.read_bytes() != content]
    if changed and not force:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise OptionError(
            f"{changed[0]}{more} is there with another content", fix="name another folder, or overwrite it with --force"
        )
    for path, content in written.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise OptionError(f"{path} cannot be written: {error.strerror}", fix="name another folder") from error
    return list(written)


def _contents() -> Iterator[tuple[str, bytes]]:
    """Each file's name from the folder, and what it holds; Kubernetes's own are left out."""
    for name in EXPORTED:
        place = FOLDER / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and path.name != "kustomization.yaml":
                yield str(path.relative_to(FOLDER)), path.read_bytes()


LOOPBACK = "127.0.0.1"
ENGINES = ("docker", "podman")
ENGINE_TIMEOUT_S = 10.0
START_TIMEOUT_S = 60.0
PULL_TIMEOUT_S = 3600.0
"""Triton's image has many gigabytes."""
RETENTION = "30d"
INSTALL = "apt-get install prometheus, or install Docker with its compose plugin"


@dataclass(frozen=True)
class Watching:
    """A started stack: URLs, Grafana's None if there is none, and the process that holds it all."""

    prometheus: str
    grafana: str | None
    process: Process


def start(options: DashboardsUp) -> Watching:
    """Start what this machine has: containers, which need the entry that Triton serves, else `prometheus` on PATH.

    Returns once they answer. Raises ServerError where there is neither, where a port is in use, or where they end;
    ArtifactError where Triton's entry is not there; OptionError where the folder cannot be written.
    """
    folder, entry = options.data.resolve(), options.model_repository / checked_model(options.entry)
    engine, prometheus = container_engine(), shutil.which("prometheus")
    if engine is None and prometheus is None:
        raise ServerError("neither a container engine with compose answers nor is prometheus on PATH", fix=INSTALL)
    asked = {"--prometheus-port": options.prometheus_port}
    if engine:
        asked["--grafana-port"] = options.grafana_port
    taken = claim_ports(LOOPBACK, asked)
    urls = {flag: f"http://{LOOPBACK}:{port}" for flag, port in taken.items()}
    if engine and not (entry / CONFIG).is_file():
        raise ArtifactError(f"{entry.name} is not in {entry.parent}", fix=how_to_make(entry))
    export(folder, generator=options.metrics, triton=options.triton_metrics, force=True)
    command = containers(engine, folder, entry, taken) if engine else native(str(prometheus), folder, taken)
    process = Process(command, folder / "log.txt")
    ready = {"Prometheus": (urls["--prometheus-port"], "/-/ready")}
    if engine:
        ready["Grafana"] = (urls["--grafana-port"], "/api/health")
    try:
        wait_until_ready(lambda: _waiting(ready), PULL_TIMEOUT_S if engine else START_TIMEOUT_S, process.check)
    except BaseException:
        process.stop()
        raise
    return Watching(urls["--prometheus-port"], urls.get("--grafana-port"), process)


def container_engine() -> list[str] | None:
    """The first engine that answers and has compose, as a command; None where there is none."""
    for name in ENGINES:
        path = shutil.which(name)
        if path and _works([path, "ps", "--quiet"]) and _works([path, "compose", "version"]):
            return [path, "compose"]
    return None


def containers(engine: Sequence[str], folder: Path, entry: Path, taken: dict[str, int]) -> Command:
    """Plan the containers of compose.yaml, with GPUs where this machine has any; they go with the command."""
    files = ["compose.yaml", *(["compose.gpu.yaml"] if Path("/dev/nvidiactl").exists() else [])]
    compose = [*engine, *(part for file in files for part in ("--file", str(folder / file)))]
    settings = {
        "SERVEMARK_MODEL_REPOSITORY": str(entry.parent.resolve()),
        "SERVEMARK_ENTRY": entry.name,
        "SERVEMARK_USER": f"{os.getuid()}:{os.getgid()}",
        "PROMETHEUS_PORT": str(taken["--prometheus-port"]),
        "GRAFANA_PORT": str(taken["--grafana-port"]),
    }
    return Command([*compose, "up"], environment={**os.environ, **settings}, afterwards=[*compose, "down"])


def native(prometheus: str, folder: Path, taken: dict[str, int]) -> Command:
    """Plan a Prometheus of this machine: on loopback, its data in the folder."""
    command = [
        prometheus,
        f"--config.file={folder / 'prometheus' / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={LOOPBACK}:{taken['--prometheus-port']}",
    ]
    return Command(command)


def _waiting(ready: dict[str, tuple[str, str]]) -> list[str]:
    """Name what does not answer yet. Raises OSError where nothing listens."""
    pages = {name: request(url.removeprefix("http://"), path).status for name, (url, path) in ready.items()}
    return [name for name, status in pages.items() if status != HTTPStatus.OK]


def _works(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=ENGINE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


DATA_SOURCE = {"uid": "servemark-prometheus", "name": "servemark: Prometheus", "type": "prometheus", "access": "proxy"}
"""As of provisioning/datasources, with names of its own: the user's Grafana may have a Prometheus already."""
INTERVAL = {"timeInterval": "1s"}
FOLDER_OF_GRAFANA = {"uid": "servemark", "title": "servemark"}
_THERE = 409
_START = "start Grafana there, or correct the URL"
_FIX = "give a token of a service account that may edit data sources and dashboards (--token-file)"


def load_dashboards(grafana: str, prometheus: str, token: str = "") -> list[str]:
    """Load every dashboard, in place of an earlier load, and return their pages.

    Without a token ~/.netrc has user and password. Raises ServerError.
    Source: Grafana's documentation, "HTTP API": data source, folder, dashboard.
    """
    session = session_with(token)
    base = grafana.rstrip("/")
    source = {**DATA_SOURCE, "url": prometheus, "jsonData": INTERVAL}
    if _call(session, "POST", f"{base}/api/datasources", source, allowed=_THERE) is None:
        _call(session, "PUT", f"{base}/api/datasources/uid/{DATA_SOURCE['uid']}", source)
    _call(session, "POST", f"{base}/api/folders", FOLDER_OF_GRAFANA, allowed=_THERE)
    pages = []
    for file in sorted((FOLDER / "grafana" / "json").glob("*.json")):
        dashboard = json.loads(file.read_text())
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "datasource":
                variable["current"] = {"text": DATA_SOURCE["name"], "value": DATA_SOURCE["uid"]}
        order = {"dashboard": dashboard, "folderUid": FOLDER_OF_GRAFANA["uid"], "overwrite": True}
        done = _call(session, "POST", f"{base}/api/dashboards/db", order)
        pages.append(f"{base}{(done or {}).get('url', '')}")
    return pages


def _call(
    session: requests.Session, method: str, url: str, document: Mapping[str, object], *, allowed: int | None = None
) -> dict[str, Any] | None:
    """Send a document; the answer, None where it has the `allowed` status. Raises ServerError."""
    answer, said = send(session, method, url, to="Grafana", fix=_START, json=document)
    if answer.status_code == allowed:
        return None
    if not answer.ok or not said:
        words = f"{answer.status_code} {said.get('message', '')}".rstrip()
        raise ServerError(f"Grafana refused {method} {url}: {words}", fix=_FIX)
    return said
