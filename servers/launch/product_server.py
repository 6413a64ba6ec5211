"""A server of another product than Triton: its environment, made by venv and pip, and its guarded process there."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from servemark import interrupts
from servemark.errors import ServerError
from servemark.machine.scratch import Scratch
from servemark.repository.names import in_path
from servers.launch.process import Command, GuardedServer, Process, claim_ports, request, wait_until_ready
from servers.products import APPS, Deployment, Place, pins, product, version

LOOPBACK = "127.0.0.1"
PORTS = ("http_port", "grpc_port", "metrics_port")
INSTALL_S = 1800.0
"""Deadline of pip, which downloads hundreds of megabytes for some."""
PYTHON = (3, 11)
"""The version that the pins are for."""
SHOWN_LINES = 8
_DONE = "pins.sha256"
_TAKEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables that would let another environment into this one."""


@dataclass(frozen=True)
class Environment:
    """The environment of a product, from pins with hashes, in the user's cache."""

    name: str

    @property
    def folder(self) -> Path:
        """Its place, also before it is made: below XDG_CACHE_HOME, by default ~/.cache."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "servemark" / "servers" / f"{self.name}-{version(self.name)}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def installed(self) -> bool:
        """Tell whether it holds what the pins say."""
        done = self.folder / _DONE
        return done.is_file() and done.read_text() == self._digest()

    def require(self) -> Path:
        """Return its interpreter. Raises ServerError where it is not installed."""
        if not self.installed:
            raise ServerError(
                f"{self.name} {version(self.name)} is not installed", fix=f"servemark servers install {self.name}"
            )
        return self.python

    def install(self) -> None:
        """Make it anew. Raises ServerError with pip's last lines; what is half done is made again the next time."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        log = self.folder.with_name(f"{self.folder.name}.log")
        pip = [str(self.python), "-m", "pip", "install", "--no-deps", "--require-hashes", "--no-input"]
        with log.open("wb") as said:
            for command in (
                [interpreter(), "-m", "venv", "--clear", str(self.folder)],
                [*pip, "--disable-pip-version-check", "-r", str(pins(self.name))],
            ):
                self._run(command, log, said.fileno())
        (self.folder / _DONE).write_text(self._digest())

    def _run(self, command: list[str], log: Path, said: int) -> None:
        try:
            with interrupts.anywhere():
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    env=own_variables(),
                    timeout=INSTALL_S,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"{self.name} is not installed after {INSTALL_S:g} s", fix=f"read {log}") from error
        if done.returncode:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN_LINES:])
            raise ServerError(f"{self.name} cannot be installed; pip's last lines:\n{last}", fix=f"read {log}")

    def _digest(self) -> str:
        return hashlib.sha256(pins(self.name).read_bytes()).hexdigest()


def own_variables() -> dict[str, str]:
    """Return this process's variables without those that would let its packages into another environment."""
    return {name: value for name, value in os.environ.items() if name not in _TAKEN}


def interpreter() -> str:
    """Find a Python of the version that the pins are for. Raises ServerError."""
    wanted = ".".join(map(str, PYTHON))
    found = sys.executable if sys.version_info[:2] == PYTHON else shutil.which(f"python{wanted}")
    if found is None:
        raise ServerError(
            f"the pins of server products are for Python {wanted}, which is not on PATH", fix=f"install python{wanted}"
        )
    return found


class ProductServer(GuardedServer):
    """A product's server of one model, which listens on loopback."""

    def __init__(self, name: str, deployment: Deployment, *, start_timeout_s: float = 120.0) -> None:
        super().__init__(start_timeout_s)
        self.name = name
        self._deployment = deployment
        self._ports = dict.fromkeys(PORTS, 0)

    def start(self) -> None:
        """Start the process. Raises ServerError where the product is not installed, or a port is in use."""
        python = Environment(self.name).require()
        self._ports = claim_ports(LOOPBACK, self._ports)
        self._scratch = Scratch("server")
        folder = self._scratch.path
        place = Place(python, folder, **self._ports)
        shutil.copy(APPS / f"{self.name}.py", place.app)
        shutil.copy(APPS / "onnx_model.py", folder)
        (folder / "job.json").write_text(json.dumps(job(self._deployment, place)))
        about = product(self.name)
        own = {name: value.format(folder=folder) for name, value in about.environment.items()}
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
        # Its workers import the application too; what they leave in TMPDIR goes with the folder.
        environment = {**own_variables(), "PYTHONPATH": str(folder), "TMPDIR": str(folder), "PATH": path, **own}
        argv = about.command(self._deployment, place)
        self._process = Process(Command(argv, environment), folder / "server.log")

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the model can be asked. Raises ServerError where it ends, or is not ready in time."""
        assert self._process
        wait_until_ready(self._waiting, timeout_s, self.check)
        self.startup_s = self._process.age_s

    def _waiting(self) -> list[str]:
        path = product(self.name).ready.format(model=in_path(self._deployment.model))
        return [] if request(self.http, path).status == HTTPStatus.OK else [self.name]

    def _endpoint(self, service: str) -> str:
        return f"{LOOPBACK}:{self._ports[f'{service}_port']}"


def job(deployment: Deployment, place: Place) -> dict[str, Any]:
    """Return what the application reads as job.json: the deployment, and where it listens."""
    known = asdict(deployment) | {"artifact": str(deployment.artifact.resolve())}
    for kind, tensors in (("inputs", deployment.inputs), ("outputs", deployment.outputs)):
        known[kind] = [
            {"name": each.name, "datatype": each.datatype, "dtype": each.dtype.name, "shape": each.shape}
            for each in tensors
        ]
    return known | {port: getattr(place, port) for port in PORTS}
