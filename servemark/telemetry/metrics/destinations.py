"""Destinations of a run's metrics, as the flags name them."""

import importlib.util
from dataclasses import asdict, dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from servemark.documents.live import LOOPBACK, Live
from servemark.errors import OptionError


@dataclass(frozen=True)
class Destinations:
    """Endpoint and receivers of the metrics; none by default."""

    metrics_port: int | None = None
    """0: a free one; None: no endpoint."""
    metrics_host: str = LOOPBACK
    metrics_grace_s: float = 0.0
    """Time for which the endpoint stays after the run."""
    otlp: str = ""
    otlp_sample: int = 0
    """One request out of this number is traced; 0: none."""

    @classmethod
    def of(cls, live: Live) -> Self:
        """Check where a request sends metrics. Raises OptionError."""
        if live.otlp:
            _require("--otlp", "opentelemetry.exporter.otlp.proto.http")
        return cls(
            metrics_port=live.metrics_port,
            metrics_host=live.metrics_host,
            metrics_grace_s=live.metrics_grace_s,
            otlp=http_url("--otlp", live.otlp),
            otlp_sample=live.otlp_sample or 0,
        )

    @property
    def any(self) -> bool:
        """Return True if there is a destination."""
        return self.metrics_port is not None or bool(self.otlp)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


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
        raise OptionError(f"{flag} is not an HTTP URL", fix=f"write it like {flag} http://127.0.0.1:4318")
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
