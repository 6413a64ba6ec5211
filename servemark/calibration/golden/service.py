"""The golden server's model and everything it says of itself: KServe's, Triton's and its own endpoints."""

import json
from collections.abc import Callable
from typing import Any, Generic, cast
from urllib.parse import quote

from servemark.calibration.golden.behaviour import Behaviour
from servemark.calibration.golden.connection import Connection, Request, error, response
from servemark.calibration.golden.record import E, Entry, Record

WIDTH = 64
MAX_BATCH = 64


class Service(Generic[E]):
    """A model with FP32[64] in and out, and its record. It answers every inference with the same bytes."""

    entry = cast(type[E], Entry)
    known_head: bytes = b""
    known_bytes: int = 0
    """Head and length of the last inference: another one like it is not read again, which makes the server fast."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.path = f"/v2/models/{quote(behaviour.model, safe='')}"
        self.connections = 0
        self.reset()
        output = {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, WIDTH]}
        outputs = [{**output, "parameters": {"binary_data_size": 4 * WIDTH}}]
        header = json.dumps({"model_name": behaviour.model, "model_version": "1", "outputs": outputs}).encode()
        self.known_answer = response(200, header + bytes(4 * WIDTH), len(header))

    def reset(self) -> None:
        """Forget everything received so far; the stalls' anchor starts anew."""
        self.record: Record[E] = Record(self.behaviour, self.entry)

    def handle(self, connection: Connection[E], request: Request) -> None:
        """Answer a whole request, at once or when it is due."""
        self.record.paths[f"{request.method} {request.path}"] += 1
        self.route(connection, request)

    def route(self, connection: Connection[E], request: Request) -> None:
        """Do what its path asks for."""
        if request.method == "POST" and request.path in {f"{self.path}/infer", f"{self.path}/versions/1/infer"}:
            self.infer(connection, request)
        elif request.method == "POST" and request.path == "/golden/reset":
            self.reset()
            connection.write(response(200, b"{}"))
        elif (answer := self.answer(request.path)) is not None:
            # Triton's health and readiness endpoints answer with an empty body.
            connection.write(response(200, json.dumps(answer).encode() if answer else b""))
        else:
            refusal = f"{request.method} {request.path}: the golden server serves only {self.path}"
            connection.write(error(404, refusal))

    def infer(self, connection: Connection[E], request: Request) -> None:
        """Plan the answer to an inference."""
        self.known_head, self.known_bytes = request.head, len(request.head) + len(request.body)
        connection.plan(self.record.admit(request.arrival_ns, request.connection), self.known_answer)

    def metadata(self) -> dict[str, Any]:
        """The content of GET /v2/models/M."""
        tensor = {"datatype": "FP32", "shape": [-1, WIDTH]}
        inputs, outputs = [{"name": "INPUT0", **tensor}], [{"name": "OUTPUT0", **tensor}]
        name = self.behaviour.model
        return {"name": name, "versions": ["1"], "platform": "golden", "inputs": inputs, "outputs": outputs}

    def config(self) -> dict[str, Any] | None:
        """The content of GET /v2/models/M/config."""
        tensor = {"data_type": "TYPE_FP32", "dims": [WIDTH]}
        inputs, outputs = [{"name": "INPUT0", **tensor}], [{"name": "OUTPUT0", **tensor}]
        name = self.behaviour.model
        return {"name": name, "backend": "golden", "max_batch_size": MAX_BATCH, "input": inputs, "output": outputs}

    def extensions(self) -> list[str]:
        """KServe's and Triton's extensions that it knows."""
        return ["binary_tensor_data", "model_configuration", "statistics"]

    def more(self) -> dict[str, Callable[[], Any]]:
        """Return further endpoints to read from."""
        return {}

    def answer(self, path: str) -> Any:
        """Answer everything but inference and reset; None where there is no such endpoint."""
        answers: dict[str, Callable[[], Any]] = {
            "/v2": lambda: {"name": "golden", "version": "1", "extensions": self.extensions()},
            "/v2/health/live": dict,
            "/v2/health/ready": dict,
            "/v2/models/stats": self.record.statistics,
            "/v2/repository/index": lambda: [{"name": self.behaviour.model, "version": "1", "state": "READY"}],
            self.path: self.metadata,
            f"{self.path}/ready": dict,
            f"{self.path}/config": self.config,
            f"{self.path}/stats": self.record.statistics,
            "/golden/log": self.record.log,
            "/golden/times": self.record.times,
            **self.more(),
        }
        answer = answers.get(path.replace("/versions/1", "").rstrip("/"))
        return None if answer is None else answer()
