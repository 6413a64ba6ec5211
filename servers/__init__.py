"""Where inference runs: Triton (embedded, on PATH, in Docker, remote) and the engines it runs.

    with open_server("auto", repository, ["resnet50_onnxruntime"], http_port=8000) as server:
        ...                         # started and ready; server.http is "127.0.0.1:8000"

A mode is a module with `NAME`, `missing` (why it cannot be used here) and `command` (how a Triton is started).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from servemark.errors import OptionError, ServerError


class Server(Protocol):
    """A running inference server, whoever started it. Endpoints are "host:port"."""

    models: list[str]

    @property
    def mode(self) -> str:
        """Which mode it is: embedded, native, docker or remote."""

    @property
    def http(self) -> str:
        """The KServe v2 endpoint over HTTP."""

    @property
    def grpc(self) -> str:
        """The KServe v2 endpoint over gRPC."""

    @property
    def metrics(self) -> str | None:
        """The Prometheus endpoint, None where it is not known."""

    @property
    def log(self) -> Path | None:
        """The server's log, None where somebody else keeps it."""

    def start(self) -> None:
        """Start it. Raises ServerError."""

    def wait_ready(self, timeout_s: float) -> None:
        """Return once every model can be asked. Raises ServerError."""

    def check(self) -> None:
        """Raise ServerError if it has died since."""

    def workers(self) -> list[psutil.Process]:
        """The processes in which its models run, as far as they can be seen from here."""

    def stop(self) -> None:
        """End it and everything it started."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class Mode:
    """A way to start a Triton on this machine; `missing` says why it cannot be used, with the remedy."""

    name: str
    missing: ServerError | None


def modes() -> list[Mode]:
    """Find out which ways there are here, the preferred first (for `servemark doctor`)."""
    from servers import docker, embedded, native

    return [Mode(module.NAME, module.missing()) for module in (embedded, native, docker)]


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
) -> Server:
    """Choose how Triton is started; `auto` takes the first mode of `modes()` that can be used.

    The server starts with `start()`, or on entering its context, which also waits until it is ready. A port of 0
    picks a free one. Raises OptionError on an unknown mode, ServerError where it, or each one, cannot be used here.
    """
    from servers import docker, embedded, native
    from servers._launch import Launched

    modules = {module.NAME: module for module in (embedded, native, docker)}
    if mode not in {"auto", *modules}:
        raise OptionError(f"no server mode is called {mode!r}", fix=f"use one of: auto, {', '.join(modules)}")
    reasons: dict[str, ServerError] = {}
    for name in modules if mode == "auto" else [mode]:
        reason = modules[name].missing()
        if reason is None:
            return Launched(
                name,
                modules[name].command,
                repository,
                models,
                host=host,
                ports={"--http-port": http_port, "--grpc-port": grpc_port, "--metrics-port": metrics_port},
                start_timeout_s=start_timeout_s,
            )
        reasons[name] = reason
    why = "".join(f"\n  {name}: {reason}" for name, reason in reasons.items())
    raise ServerError(f"no Triton can be started here:{why}", fix="servemark doctor shows what each mode needs")


def attach(url: str, models: Sequence[str], *, protocol: str = "http", metrics: str | None = None) -> Server:
    """Attach to a server that somebody else runs. Raises OptionError on a malformed URL."""
    from servers.remote import Remote

    return Remote(url, models, protocol=protocol, metrics=metrics)
