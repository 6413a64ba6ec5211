"""A server of another product than Triton, as a guarded process of its own environment."""

import json
import os
import shutil
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from servemark.machine.scratch import Scratch
from servemark.repository.names import in_path
from servers.launch import ports, readiness
from servers.launch.environments import Environment, own_variables
from servers.launch.process import Command, GuardedServer, Process
from servers.products import APPS, Deployment, Place, product

LOOPBACK = "127.0.0.1"
PORTS = ("http_port", "grpc_port", "metrics_port")


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

    def wait_ready(self, timeout_s: float) -> None:
        """Return once the model can be asked. Raises ServerError where it ends, or is not ready in time."""
        assert self._process
        readiness.wait_ready(self._waiting, timeout_s, self.check)
        self.startup_s = self._process.age_s

    def _waiting(self) -> list[str]:
        path = product(self.name).ready.format(model=in_path(self._deployment.model))
        return [] if readiness.request(self.http, path).status == HTTPStatus.OK else [self.name]

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
