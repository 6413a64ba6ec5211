"""A server of another product than Triton, as a guarded process of its own environment."""

import http.client
import json
import os
import shutil
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from servemark.errors import ServerError
from servemark.machine.scratch import Scratch
from servemark.repository.names import in_path
from servers.launch import ports, readiness
from servers.launch.environments import Environment, own_variables
from servers.launch.process import Command, Process
from servers.products import APPS, Deployment, Place, product

LOOPBACK = "127.0.0.1"
PORTS = ("http_port", "grpc_port", "metrics_port")


class ProductServer:
    """A product's server of one model, which listens on loopback.

    As a context manager it is started and ready inside, and gone afterwards. Raises ServerError where the product is
    not installed, ends, or is not ready in time.
    """

    def __init__(self, name: str, deployment: Deployment, *, start_timeout_s: float = 120.0) -> None:
        self.name = name
        self.startup_s = 0.0
        """Time from the start of its process until it was ready."""
        self._deployment = deployment
        self._ports = dict.fromkeys(PORTS, 0)
        self._start_timeout_s = start_timeout_s
        self._scratch: Scratch | None = None
        self._process: Process | None = None

    @property
    def http(self) -> str:
        """The HTTP endpoint, "host:port"; known once started."""
        return f"{LOOPBACK}:{self._ports['http_port']}"

    @property
    def grpc(self) -> str:
        """The gRPC endpoint, "host:port"; known once started."""
        return f"{LOOPBACK}:{self._ports['grpc_port']}"

    @property
    def root(self) -> int | None:
        """The process from which all of its processes descend; None before the start."""
        return self._process.root if self._process else None

    def check(self) -> None:
        """Raise ServerError, with the last lines of the log, if the server has died."""
        if self._process is None:
            raise ServerError(f"{self.name} has not been started")
        self._process.check()

    def start(self) -> None:
        """Start the process. Raises ServerError where the product is not installed, or a port is in use."""
        python = Environment(self.name).require()
        self._ports = ports.claim(LOOPBACK, self._ports)
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

    def wait_ready(self) -> None:
        """Return once the model can be asked. Raises ServerError."""
        assert self._process
        readiness.wait_ready(self._waiting, self._start_timeout_s, self.check)
        self.startup_s = self._process.age_s

    def _waiting(self) -> list[str]:
        path = product(self.name).ready.format(model=in_path(self._deployment.model))
        return [] if readiness.request(self.http, path)[0] == http.client.OK else [self.name]

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process:
            self._process.stop()
        if self._scratch is not None:
            self._scratch.end(failed=kind is not None and kind is not KeyboardInterrupt and self._process is not None)


def job(deployment: Deployment, place: Place) -> dict[str, Any]:
    """Return what the application reads as job.json: the deployment, and where it listens."""
    known = asdict(deployment) | {"artifact": str(deployment.artifact.resolve())}
    for kind, tensors in (("inputs", deployment.inputs), ("outputs", deployment.outputs)):
        known[kind] = [
            {"name": each.name, "datatype": each.datatype, "dtype": each.dtype.name, "shape": each.shape}
            for each in tensors
        ]
    return known | {port: getattr(place, port) for port in PORTS}
