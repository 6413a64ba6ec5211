"""Description of a load, its server, and the figures of one run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from loadgen.kserve.control import Control

VECTOR, IMAGE = (64,), (3, 224, 224)
"""Shapes of the identity models' input."""


@dataclass(frozen=True)
class Load:
    """A closed loop of `concurrency` on an identity model."""

    model: str = "identity"
    protocol: str = "http"
    streaming: bool = False
    shared_memory: str = "none"
    tensor_format: str = "binary"
    """Of inputs and outputs, over HTTP."""
    concurrency: int = 32
    one_input: tuple[int, ...] | None = None
    """Shape of the one input that is sent again and again, as perf_analyzer does; None: many different ones."""


@dataclass(frozen=True)
class Endpoints:
    """Addresses of a server, each as "host:port"."""

    http: str
    grpc: str = ""

    def of(self, load: Load) -> str:
        """The one for a load's protocol."""
        return self.grpc if load.protocol == "grpc" else self.http

    def counter(self, model: str) -> Callable[[], int]:
        """Return a function that counts the successful requests by the server's own statistics."""
        control = Control(f"http://{self.http}")

        def answered() -> int:
            statistics = control.statistics(model)
            if statistics is None:
                raise SystemExit(f"{self.http} gives no statistics of {model}")
            return int(statistics["inference_stats"]["success"]["count"])

        return answered


class Figures(NamedTuple):
    """One run, by the generator's own report."""

    requests_per_s: float
    p50_ms: float
    cpu_us: float
    """CPU of the generator for each request in µs, from outside: see cpu_meter."""
