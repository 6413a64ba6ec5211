"""Loading a model anew in a running Triton that is reloadable, as its config.pbtxt says by now.

KServe v2 calls this the model repository extension.

The old one goes first. Asked to load a model that is loaded, Triton keeps what it can: the same configuration changes
nothing, also where the model's process has died, and another number of instances leaves the old ones as they are, long
since warm, beside new ones.
"""

import json
from http import HTTPStatus

import psutil

from servemark.errors import ServerError
from servemark.repository.names import in_path
from servemark.telemetry.http_request import Reply
from servers.launch.readiness import REQUEST_TIMEOUT_S, load_failure, request, wait_ready
from servers.launch.server import Server

UNLOAD_TIMEOUT_S = 30.0
"""Ten times what it takes as a rule; a model whose process was killed never goes."""


def unload_model(server: Server, model: str) -> None:
    """Have a model go; returns when nothing of it is left. Raises ServerError."""
    workers = server.workers()
    try:
        _post(server, f"models/{in_path(model)}/unload", UNLOAD_TIMEOUT_S)
        wait_ready(lambda: _remains(server, model, workers), UNLOAD_TIMEOUT_S, server.check)
    except OSError as error:
        server.check()
        raise ServerError(f"the server at {server.http} did not unload {model}: {error}") from error


def load_model(server: Server, model: str, timeout_s: float) -> None:
    """Load a model; returns when it answers. Raises ServerError, with Triton's own message where it has one."""
    try:
        reply = _post(server, f"models/{in_path(model)}/load", timeout_s)
    except OSError as error:
        server.check()
        raise ServerError(f"the server at {server.http} did not load {model}: {error}") from error
    if reply.status != HTTPStatus.OK:
        raise load_failure(model, json.loads(reply.body).get("error", f"status {reply.status}"))


def _remains(server: Server, model: str, workers: list[psutil.Process]) -> list[str]:
    """List the remains of an unloaded model; a process ends about 2 s after the model has left the index."""
    index = _post(server, "index", REQUEST_TIMEOUT_S)
    states = {entry["name"]: entry.get("state") for entry in json.loads(index.body)}
    left = [f"the end of {model}"] if states.get(model) in {"READY", "UNLOADING", "LOADING"} else []
    return left + [f"the end of process {worker.pid}" for worker in workers if worker.is_running()]


def _post(server: Server, path: str, timeout_s: float) -> Reply:
    return request(server.http, f"/v2/repository/{path}", body=b"", headers=server.key, timeout_s=timeout_s)
