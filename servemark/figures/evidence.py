"""Evidence: all that a run saw of itself and of its server, from which its figures are computed.

Parts that only some runs have are protocols where what records them knows the load generator's requests.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

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


_STAMPS = 6
"""Times of a request that `ConnectionTimes.take` keeps."""


class ConnectionTimes:
    """Parts of the answered requests. They follow one another without a gap, and add up to the service time."""

    def __init__(self) -> None:
        self.connect, self.tls, self.first_byte, self.receive = (Histogram() for _ in range(4))
        self.dns_ms: float | None = None
        """The time to look the server's name up, once before the run (ms). None: the URL has an address."""
        self._raw = array("q")

    def take(self, scheduled: int, begun: int, connected: int, ready: int, first: int, done: int) -> None:
        """Take the stamps of one request, in ns of the monotonic clock."""
        self._raw.extend((scheduled, begun, connected, ready, first, done))

    def flush(self, start: int, end: int) -> None:
        """Count what has been gathered of requests that were scheduled in an interval (ns)."""
        rows = np.array(self._raw, dtype=np.int64).reshape(-1, _STAMPS)
        del self._raw[:]
        rows = rows[(rows[:, 0] >= start) & (rows[:, 0] < end)]
        for number, part in enumerate((self.connect, self.tls, self.first_byte, self.receive), 1):
            part.record(rows[:, number + 1] - rows[:, number])


@dataclass
class Volume:
    """Sums over the distinct requests, which are made before the run, and over all answers that came compressed."""

    requests: int = 0
    request_bytes: int = 0
    sent_bytes: int = 0
    """The same requests as they travel."""
    answers: int = 0
    answer_bytes: int = 0
    received_bytes: int = 0
    """The same answers as they came."""

    def request(self, plain: int, sent: int) -> None:
        """Count a request that was made."""
        self.requests += 1
        self.request_bytes += plain
        self.sent_bytes += sent

    def answer(self, received: int, plain: int) -> None:
        """Count an answer that came compressed."""
        self.answers += 1
        self.received_bytes += received
        self.answer_bytes += plain


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
    connections: ConnectionTimes | None = None
    secure: bool = False
    """True if connections have TLS."""
    compression: Volume | None = None
    compressed: tuple[bool, bool] = (False, False)
    """True where compression of requests, and of answers, was asked for."""
    cancellation: Cancellation | None = None
