"""A Triton, or another KServe v2 server, that somebody else runs: attach to it, never stop it."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psutil

from servemark.artifacts import Entry
from servemark.errors import OptionError, ServerError
from servers import _readiness

ATTACH_TIMEOUT_S = 5.0
METRICS_PORT = 8002


class Remote:
    """A server at a URL. `url` is the endpoint of `protocol` (http or grpc), "host:port" with or without a scheme."""

    mode = "remote"
    log: Path | None = None

    def __init__(self, url: str, models: Sequence[str], *, protocol: str = "http", metrics: str | None = None) -> None:
        parts = urlsplit(url if "//" in url else f"//{url}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise OptionError(f"{url!r} is no URL: {error}", fix="write it like -u localhost:8000") from error
        if not host or not port:
            raise OptionError(f"{url!r} has no host or no port", fix="write it like -u localhost:8000")
        if protocol not in {"http", "grpc"}:
            raise OptionError(f"protocol {protocol!r} is unknown", fix="use http or grpc")
        host = f"[{host}]" if ":" in host else host
        self.models = list(models)
        self.protocol = protocol
        self._endpoint = f"{host}:{port}"
        self.metrics: str | None = metrics or f"{host}:{METRICS_PORT}"

    @property
    def http(self) -> str:
        """The HTTP endpoint. Raises OptionError when attached by gRPC."""
        return self._require("http")

    @property
    def grpc(self) -> str:
        """The gRPC endpoint. Raises OptionError when attached by HTTP."""
        return self._require("grpc")

    def start(self) -> None:
        """Do nothing: somebody else started it."""

    def stop(self) -> None:
        """Do nothing: somebody else stops it."""

    def workers(self) -> list[psutil.Process]:
        """None: what it runs is somebody else's to see."""
        return []

    def wait_ready(self, timeout_s: float) -> None:
        """Check at once that a server answers, then wait for its models. Raises ServerError naming what starts one."""
        self.check()
        try:
            _readiness.wait_ready(self._not_ready, timeout_s, self.check)
        except ServerError as error:
            raise ServerError(f"{self._endpoint}: {error.what}", fix=error.fix or self._start_command()) from error

    def check(self) -> None:
        """Raise ServerError if no server answers at the URL."""
        try:
            self._not_ready()
        except OSError as error:
            raise ServerError(
                f"no {self.protocol} server answers at {self._endpoint}: {error}", fix=self._start_command()
            ) from error

    def __enter__(self) -> Self:
        self.wait_ready(ATTACH_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the server as it is."""

    def _not_ready(self) -> list[str]:
        probe = _readiness.not_ready if self.protocol == "http" else _readiness.grpc_not_ready
        return probe(self._endpoint, self.models)

    def _start_command(self) -> str:
        entries = [Entry.of_folder(Path(model)) for model in self.models]
        engines = "".join(f" --engine {engine}" for engine in sorted({entry.engine for entry in entries}))
        return f"servemark serve {' '.join(dict.fromkeys(entry.workload for entry in entries))}{engines}"

    def _require(self, protocol: str) -> str:
        if protocol != self.protocol:
            raise OptionError(f"{self._endpoint} is a {self.protocol} endpoint", fix=f"use -i {self.protocol}")
        return self._endpoint
