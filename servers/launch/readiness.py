"""Is a server ready for its models? KServe v2 health endpoints over HTTP, and Triton's repository index."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException

from servemark import interrupts
from servemark.errors import ServerError
from servemark.repository.names import spellings
from servemark.telemetry.http_request import Reply, ask

POLL_S = 0.05
REQUEST_TIMEOUT_S = 5.0
_NO_GPU = re.compile(r"invalid or unsupported gpu id (\d+)")


def request(
    endpoint: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> Reply:
    """Ask "host:port", by POST where there is a body. Raises OSError, and KeyboardInterrupt on a signal."""
    try:
        with interrupts.anywhere():
            return ask(endpoint, path, body=body, headers=headers, timeout_s=timeout_s)
    except HTTPException as error:
        raise OSError(f"no HTTP server: {error!r}") from error


def wait_ready(probe: Callable[[], list[str]], timeout_s: float, check: Callable[[], None]) -> None:
    """Return as soon as nothing is waiting any more.

    `probe` names what is not ready yet, or raises OSError where nothing listens yet. `check` is asked at every turn
    and raises when the server has ended. Raises ServerError as soon as a model fails to load, with Triton's own
    message, and when `timeout_s` has passed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        try:
            waiting = probe()
        except OSError as error:
            waiting = [f"the server ({error})"]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise ServerError(f"not ready after {timeout_s:g} s: {', '.join(waiting)}")
        interrupts.sleep(POLL_S)


def not_ready(endpoint: str, models: Sequence[str], key: Mapping[str, str]) -> list[str]:
    """Name what is not ready yet; `key` opens the repository index.

    Raises OSError when unreachable, ServerError when a model failed to load.
    """
    paths = {"the server": ["/v2/health/ready"]}
    paths |= {model: [f"/v2/models/{each}/ready" for each in spellings(model)] for model in models}
    waiting = [
        name for name, known in paths.items() if all(request(endpoint, path).status != HTTPStatus.OK for path in known)
    ]
    if waiting:
        _raise_load_failure(endpoint, models, key)
    return waiting


def version(endpoint: str) -> str:
    """Return the version that a KServe v2 server says it has; "" where it says none. Raises OSError."""
    return str(json.loads(request(endpoint, "/v2").body).get("version", ""))


def _raise_load_failure(endpoint: str, models: Sequence[str], key: Mapping[str, str]) -> None:
    """Ask Triton's repository index why a model is not there; other servers have no such page."""
    index = request(endpoint, "/v2/repository/index", body=b"", headers=key)
    if index.status != HTTPStatus.OK:
        return
    for entry in json.loads(index.body):
        if entry["name"] in models and entry.get("state") == "UNAVAILABLE" and entry.get("reason"):
            raise load_failure(entry["name"], entry["reason"])


def load_failure(model: str, reason: str) -> ServerError:
    """Triton's reason as an error: a Python traceback follows "At:", and an error of ours carries its own fix."""
    what, _, fix = reason.partition("\n\nAt:")[0].partition("\n  fix: ")
    if wanted := _NO_GPU.search(what):
        what = f"it is to run on GPU {wanted[1]}, and Triton sees no such GPU here"
        fix = "name a GPU that `servemark doctor` shows, or an engine for CPUs and --device cpu"
    return ServerError(f"Triton cannot load {model}: {what}", fix=fix or None)
