"""Evidence: all that a run saw of itself and of its server, from which its figures are computed.

The parts that only some runs have are protocols, because what records them belongs to the load generator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from servemark.figures.value import Value
from servemark.machine.cpu_time import CpuUse
from servemark.stats.histogram import Histogram


class Sequences(Protocol):
    """Whole sequences of requests to a stateful model."""

    length: int
    in_flight: int
    completed: int
    broken: int
    duration: Histogram


class Answers(Protocol):
    """Several answers to each request."""

    first: Histogram
    between: Histogram
    answers: int
    requests: int
    came: int


class Connections(Protocol):
    """Parts of requests that had a connection each."""

    dns_ms: float | None
    connect: Histogram
    tls: Histogram
    first_byte: Histogram
    receive: Histogram


class Compression(Protocol):
    """Sizes with and without compression: sums over requests, and over compressed answers."""

    requests: int
    request_bytes: int
    sent_bytes: int
    answers: int
    answer_bytes: int
    received_bytes: int


class Cancellation(Protocol):
    """Requests that were to be given up."""

    given_up: Histogram
    answered: int

    @property
    def requests(self) -> int:
        """All of the interval."""


class Clock(Protocol):
    """The kernel's clock: readings without a stamp, stamps that were refused, steps, and how late requests left."""

    missing: int
    refused: int
    steps: int
    send_error: Histogram


@dataclass(frozen=True)
class Energy:
    """A meter's readings. `reason` says why there are none, or no energy."""

    joules: float | None = None
    average_w: float | None = None
    idle_w: float | None = None
    idle_reason: str | None = None
    window_s: float | None = None
    samples: int | None = None
    reason: str = "nothing was metered"
    parts: Sequence[tuple[float, int]] = ()
    """Joules and inferences of each stretch of the run that the meter tells apart."""
    resolved_s: float = 0.0
    """Shortest stretch whose energy the meter tells."""


@dataclass(frozen=True)
class Generator:
    """The load generator itself; None: not known."""

    cpu_utilization: float | None = None
    max_in_flight: int = 0
    sampling_cpu_utilization: float | None = None
    workers: int = 1
    outside: int = 0
    """Requests that were not scheduled in the measured interval."""
    cpu_latency: Value | None = None
    """Within which idle cores had to wake up (us); None where several processes each asked by themselves."""


@dataclass(frozen=True)
class Evidence:
    """Everything that a run saw, so far where `live`. Histograms are of the requests scheduled in the interval."""

    open_loop: bool = True
    batch_size: int = 1
    measured_s: float = 0.0
    live: bool = False
    latency: Histogram = field(default_factory=Histogram)
    service_time: Histogram = field(default_factory=Histogram)
    schedule_delay: Histogram = field(default_factory=Histogram)
    waited_delay: Histogram = field(default_factory=Histogram)
    """The part of the schedule delays of requests that waited for --max-in-flight."""
    windows: Sequence[Histogram] = ()
    """The latencies by time."""
    scheduled: int = 0
    completed: int = 0
    """Good answers that came in the interval."""
    good: int = 0
    """Requests that were answered within the limit of the latency objective."""
    late: int = 0
    """Requests that were sent more than 1 ms late."""
    errors: Mapping[str, int] = field(default_factory=dict)
    agreement: Mapping[str, Any] = field(default_factory=dict)
    """Agreement of the answers with the golden ones (`servemark.workload.golden_check`)."""
    quality: Value | None = None
    quality_target: Value | None = None
    energy: Energy = field(default_factory=Energy)
    statistics: tuple[Mapping[str, Any], Mapping[str, Any]] | str = "the server gives no statistics"
    """The server's counters at the beginning and at the end, or why there are none."""
    generator: Generator = field(default_factory=Generator)
    cpu: CpuUse | str = "it was not watched"
    clock: Clock | None = None
    sequences: Sequences | None = None
    answers: Answers | None = None
    connections: Connections | None = None
    secure: bool = False
    """True if connections have TLS."""
    compression: Compression | None = None
    compressed: tuple[bool, bool] = (False, False)
    """True where compression of requests, and of answers, was asked for."""
    cancellation: Cancellation | None = None
