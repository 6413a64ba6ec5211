"""Where a run's metrics go, as the flags say."""

from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from servemark.errors import OptionError
from servemark.quantities import whole

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535


@dataclass(frozen=True)
class Destinations:
    """Where metrics are exposed; nowhere unless it is told."""

    metrics_port: int | None = None
    """0: a free one; None: no endpoint."""
    metrics_host: str = LOOPBACK

    @classmethod
    def from_options(cls, options: Namespace) -> Self:
        """Read the flags. Raises OptionError."""
        port = whole("--metrics-port", options.metrics_port, 0) if options.metrics_port else None
        if port is not None and port > MAX_PORT:
            raise OptionError(f"--metrics-port {port} is no port", fix=f"give one from 0 (a free one) to {MAX_PORT}")
        return cls(port, options.metrics_host)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.metrics_port is not None

    def options(self) -> dict[str, str]:
        """The flags that say so, by name."""
        return {
            "metrics_port": "" if self.metrics_port is None else str(self.metrics_port),
            "metrics_host": self.metrics_host,
        }

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def of_part(self, number: int) -> Self:
        """Those of the part with this number, from 0, of several runs that go on together: each has its own port."""
        return replace(self, metrics_port=self.metrics_port + number) if self.metrics_port else self
