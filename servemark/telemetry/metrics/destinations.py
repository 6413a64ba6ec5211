"""Destinations of a run's metrics, as the flags name them."""

import importlib.util
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from urllib.parse import urlsplit

from servemark.errors import OptionError
from servemark.quantities import SECONDS, at_least, text_of, whole

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535


@dataclass(frozen=True)
class Destinations:
    """Endpoint and receivers of the metrics; none by default."""

    metrics_port: int | None = None
    """0: a free one; None: no endpoint."""
    metrics_host: str = LOOPBACK
    metrics_linger_s: float = 0.0
    """Time for which the endpoint stays after the run."""
    push_gateway: str = ""
    otlp: str = ""
    trace_requests: int = 0
    """One request out of this number is traced; 0: none."""

    @classmethod
    def from_options(cls, options: Namespace) -> Self:
        """Read the flags. Raises OptionError."""
        port = whole("--metrics-port", options.metrics_port, 0) if options.metrics_port else None
        if port is not None and port > MAX_PORT:
            raise OptionError(f"--metrics-port {port} is not a port", fix=f"give one from 0 (a free one) to {MAX_PORT}")
        linger_s = at_least("--metrics-linger", options.metrics_linger, 0, SECONDS)
        if linger_s and port is None:
            raise OptionError("--metrics-linger is for the port of the metrics", fix="add --metrics-port PORT")
        if options.otlp:
            _require("--otlp", "opentelemetry.exporter.otlp.proto.http")
        trace_requests = whole("--trace-requests", options.trace_requests, 1) if options.trace_requests else 0
        if trace_requests and not options.otlp:
            raise OptionError("--trace-requests has nowhere to send its spans", fix="add --otlp URL")
        return cls(
            metrics_port=port,
            metrics_host=options.metrics_host,
            metrics_linger_s=linger_s,
            push_gateway=http_url("--push-gateway", options.push_gateway),
            otlp=http_url("--otlp", options.otlp),
            trace_requests=trace_requests,
        )

    @property
    def any(self) -> bool:
        """Return True if there is a destination."""
        return self.metrics_port is not None or bool(self.push_gateway or self.otlp)

    def options(self) -> dict[str, str]:
        """The flags that say so, by name."""
        return {
            "metrics_port": "" if self.metrics_port is None else str(self.metrics_port),
            "metrics_host": self.metrics_host,
            "metrics_linger": text_of(self.metrics_linger_s),
            "push_gateway": self.push_gateway,
            "otlp": self.otlp,
            "trace_requests": str(self.trace_requests or ""),
        }

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def of_part(self, number: int) -> Self:
        """Those of the part with this number, from 0, of several runs that go on together: each has its own port."""
        return replace(self, metrics_port=self.metrics_port + number) if self.metrics_port else self


def http_url(flag: str, text: str) -> str:
    """A URL of HTTP without credentials, or "". Raises OptionError."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise OptionError(f"{flag} is not an HTTP URL", fix=f"write it like {flag} http://127.0.0.1:9091")
    if parts.username or parts.password:
        # A result holds the URL, and other users of the machine see the command line.
        raise OptionError(f"{flag} has credentials in its URL", fix=f"put those of {parts.hostname} in ~/.netrc")
    return text


def _require(flag: str, package: str) -> None:
    try:
        found = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise OptionError(f"{flag} needs {package}, which is not installed", fix='pip install -e ".[telemetry]"')
