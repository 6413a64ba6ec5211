"""Inference servers: Triton (embedded, on PATH, in Docker) and the engines that it runs.

with open_server("auto", repository, ["resnet50_onnxruntime"], http_port=8000) as server:
...                         # started and ready; server.http is "127.0.0.1:8000"
"""

from collections.abc import Sequence
from pathlib import Path

from servemark.errors import OptionError, ServerError
from servers.launch.server import Server, ServerJob
from servers.modes import MODES

__all__ = ["Server", "find_modes", "open_server"]


def find_modes() -> dict[str, ServerError | None]:
    """Find out which ways there are to start a Triton here, the preferred first, and why one cannot be used."""
    return {name: starter.missing() for name, starter in MODES.items()}


def open_server(
    mode: str,
    repository: Path,
    models: Sequence[str],
    *,
    host: str = "127.0.0.1",
    http_port: int = 0,
    grpc_port: int = 0,
    metrics_port: int = 0,
    start_timeout_s: float = 120.0,
    reloadable: bool = False,
    otlp: str = "",
    more: Sequence[str] = (),
) -> Server:
    """Choose how Triton is started; `auto` takes the first mode of `find_modes()` that can be used.

    The server starts with `start()`, or on entering its context, which also waits until it is ready. A port of 0
    picks a free one. A `reloadable` one loads models anew for who has its key. Requests with a traceparent
    have spans at the collector `otlp`; Triton gets `more` flags. Raises OptionError on an unknown mode,
    ServerError where it, or each one, cannot be used here.
    """
    if mode not in {"auto", *MODES}:
        raise OptionError(f"no server mode is called {mode!r}", fix=f"use one of: auto, {', '.join(MODES)}")
    reasons: dict[str, ServerError] = {}
    for name in MODES if mode == "auto" else [mode]:
        reason = MODES[name].missing()
        if reason is None:
            ports = {"--http-port": http_port, "--grpc-port": grpc_port, "--metrics-port": metrics_port}
            job = ServerJob(repository, models, host, ports, reloadable, otlp, more)
            return Server(name, MODES[name].command, job, start_timeout_s)
        reasons[name] = reason
    why = "".join(f"\n  {name}: {reason}" for name, reason in reasons.items())
    raise ServerError(f"no Triton can be started here:{why}", fix="servemark doctor shows what each mode needs")
