"""Starts Prometheus, and Grafana and Triton where containers can be run, until they are stopped."""

import http.client
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servemark.documents.live import GENERATOR, TRITON
from servemark.errors import ArtifactError, ServerError
from servemark.monitoring.files import export
from servemark.repository.entry import CONFIG, how_to_make
from servers.launch import ports, readiness
from servers.launch.process import Command, Process

LOOPBACK = "127.0.0.1"
ENGINES = ("docker", "podman")
ENGINE_TIMEOUT_S = 10.0
START_TIMEOUT_S = 60.0
PULL_TIMEOUT_S = 3600.0
"""Triton's image has many gigabytes."""
RETENTION = "30d"
INSTALL = "apt-get install prometheus, or install Docker with its compose plugin"


@dataclass(frozen=True)
class Stack:
    """Targets to watch, and the ports that show them.

    `folder` gets the files and Prometheus's data. `entry` is the folder that Triton serves, in containers.
    """

    folder: Path
    entry: Path
    generator: str = GENERATOR
    triton: str = TRITON
    prometheus_port: int = 9090
    grafana_port: int = 3000


@dataclass(frozen=True)
class Watching:
    """A started stack: URLs, Grafana's None if there is none, and the process that holds it all."""

    prometheus: str
    grafana: str | None
    process: Process


def start(stack: Stack) -> Watching:
    """Start what this machine has: containers, else the `prometheus` on PATH.

    Returns once they answer. Raises ServerError where there is neither, where a port is in use, or where they end;
    ArtifactError where Triton's entry is not there; OSError where the folder cannot be written.
    """
    engine, prometheus = container_engine(), shutil.which("prometheus")
    if engine is None and prometheus is None:
        raise ServerError("neither a container engine with compose answers nor is prometheus on PATH", fix=INSTALL)
    asked = {"--prometheus-port": stack.prometheus_port} | ({"--grafana-port": stack.grafana_port} if engine else {})
    taken = ports.claim(LOOPBACK, asked)
    urls = {flag: f"http://{LOOPBACK}:{port}" for flag, port in taken.items()}
    if engine and not (stack.entry / CONFIG).is_file():
        raise ArtifactError(f"{stack.entry.name} is not in {stack.entry.parent}", fix=how_to_make(stack.entry))
    export(stack.folder, generator=stack.generator, triton=stack.triton, force=True)
    command = containers(engine, stack, taken) if engine else native(str(prometheus), stack, taken)
    process = Process(command, stack.folder / "log.txt")
    ready = {"Prometheus": (urls["--prometheus-port"], "/-/ready")}
    if engine:
        ready["Grafana"] = (urls["--grafana-port"], "/api/health")
    try:
        readiness.wait_ready(lambda: _waiting(ready), PULL_TIMEOUT_S if engine else START_TIMEOUT_S, process.check)
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


def containers(engine: Sequence[str], stack: Stack, taken: dict[str, int]) -> Command:
    """Plan the containers of compose.yaml, with GPUs where this machine has any; they go with the command."""
    files = ["compose.yaml", *(["compose.gpu.yaml"] if Path("/dev/nvidiactl").exists() else [])]
    compose = [*engine, *(part for file in files for part in ("--file", str(stack.folder / file)))]
    settings = {
        "SERVEMARK_MODEL_REPOSITORY": str(stack.entry.parent.resolve()),
        "SERVEMARK_ENTRY": stack.entry.name,
        "SERVEMARK_USER": f"{os.getuid()}:{os.getgid()}",
        "PROMETHEUS_PORT": str(taken["--prometheus-port"]),
        "GRAFANA_PORT": str(taken["--grafana-port"]),
    }
    return Command([*compose, "up"], environment={**os.environ, **settings}, afterwards=[*compose, "down"])


def native(prometheus: str, stack: Stack, taken: dict[str, int]) -> Command:
    """Plan a Prometheus of this machine: on loopback, its data in the folder."""
    command = [
        prometheus,
        f"--config.file={stack.folder / 'prometheus' / 'prometheus.yml'}",
        f"--storage.tsdb.path={stack.folder / 'data'}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={LOOPBACK}:{taken['--prometheus-port']}",
    ]
    return Command(command)


def _waiting(ready: dict[str, tuple[str, str]]) -> list[str]:
    """Name what does not answer yet. Raises OSError where nothing listens."""
    pages = {name: readiness.request(url.removeprefix("http://"), path)[0] for name, (url, path) in ready.items()}
    return [name for name, status in pages.items() if status != http.client.OK]


def _works(command: list[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=ENGINE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
