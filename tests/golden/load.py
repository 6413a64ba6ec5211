"""Load on a golden server from this process: the driver without Locust, and every outcome it reported."""

import itertools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.kserve.http_connection import Connection
from loadgen.kserve.http_messages import Asked, ResponseChecker, encode_request
from loadgen.load.arrivals import Arrivals, ClosedLoopArrivals, OpenLoopArrivals
from loadgen.load.load_config import LoadConfig
from loadgen.sut.channel import Channel, Outcome, Payload
from loadgen.sut.kernel_clock import KernelClock
from loadgen.targets.open import open_target
from loadgen.transport.access import NO_ACCESS, Access
from loadgen.transport.tcp import Address
from servemark.workload import Tensor
from tests.support.load_config import of_server

ASKED = Asked("golden", frozenset({"1"}))
START_IN_NS = 20_000_000


def tensor(width: int, name: str = "OUTPUT0") -> Tensor:
    return Tensor(name, "FP32", (width,))


def constant_ns(rate: float, count: int) -> list[int]:
    """Arrivals 1/rate apart."""
    return [round(index * 1e9 / rate) for index in range(count)]


@dataclass
class Load:
    """A driver and what it reported. `tick` is called about every 5 ms and may raise to end the run."""

    secure: ClassVar = "https"

    port: int
    batch: int = 1
    width: int = 64
    distinct: int = 50  # contents of requests
    timeout_s: float = 5.0
    max_in_flight: int = 1024
    connect: int = 0
    requests: Iterator[Payload] | None = None
    access: Access | None = None  # TLS, where it is given
    asked: Asked = ASKED
    in_turn: bool = False
    tick: Callable[[int], None] = lambda _now: None
    cancels: Callable[[Channel], bool] | None = None  # says which requests to give up
    outcomes: list[Outcome] = field(default_factory=list)
    peak_in_flight: int = 0
    started_ns: int = 0
    clock: KernelClock = field(default_factory=KernelClock)

    def open(self, arrivals_ns: Sequence[int]) -> Self:
        """Drive a schedule to its end."""
        self.started_ns = time.monotonic_ns() + START_IN_NS
        return self.drive(OpenLoopArrivals(list(arrivals_ns), self.started_ns))

    def closed(self, concurrency: int, duration_s: float, at_least: int = 8) -> Self:
        """Keep `concurrency` requests in flight for the duration, and longer until `at_least` have an outcome.

        A time alone is not enough, because a busy machine may answer one request in a tenth of a second.
        """
        self.started_ns, self.max_in_flight = time.monotonic_ns(), concurrency
        end_ns = self.started_ns + round(duration_s * 1e9)
        return self.drive(ClosedLoopArrivals(concurrency, lambda now: now >= end_ns and len(self.outcomes) >= at_least))

    def drive(self, arrivals: Arrivals) -> Self:
        """Run the driver; a KeyboardInterrupt out of `tick` abandons what is in flight, as a measurement does."""
        connections = self.connections()
        requests = self.requests or self.payloads()
        driver = Driver(connections, requests, timeout_s=self.timeout_s, on_outcome=self.outcomes.append)

        def tick(now: int) -> None:
            if self.cancels is not None:
                driver.cancel(self.cancels, "cancelled", "by the test")
            self.tick(now)

        try:
            connections.open_ahead(self.connect)
            driver.run(arrivals, tick)
        except KeyboardInterrupt:
            driver.abandon("interrupted", "by the test")
        finally:
            connections.close()
        self.peak_in_flight = driver.peak_in_flight
        return self

    def connections(self) -> Connections:
        """Make what the driver sends over."""
        return Connections(self.channels(), self.max_in_flight, in_turn=self.in_turn)

    @property
    def address(self) -> Address:
        """Address of the server."""
        if self.access is not None:
            return replace(self.access.address(f"{self.secure}://127.0.0.1:{self.port}"), clock=self.clock)
        return Address(socket.AF_INET, ("127.0.0.1", self.port), clock=self.clock)

    def channels(self) -> Callable[[], Channel]:
        """Factory of connections: here over HTTP."""
        checker = ResponseChecker([tensor(self.width)], self.batch, self.asked)
        return lambda: Connection(self.address, checker)

    def arrays(self) -> npt.NDArray[np.float32]:
        """The inputs of the distinct requests."""
        count = self.distinct * self.batch * self.width
        return np.arange(count, dtype=np.float32).reshape(self.distinct, self.batch, self.width)

    def encode(self, array: npt.NDArray[np.float32]) -> bytes:
        """Make a request to the golden server's default model."""
        headers = (self.access or NO_ACCESS).headers
        return encode_request("h", "golden", {"INPUT0": array}, [tensor(self.width)], {"INPUT0": "FP32"}, headers)

    def payloads(self) -> Iterator[Payload]:
        """The requests, where none are given: their answers can be read."""
        return itertools.cycle([Payload(self.encode(array), golden_rows=(0,)) for array in self.arrays()])

    @property
    def good(self) -> list[Outcome]:
        """The outcomes without an error, in the order of their schedule."""
        return sorted((o for o in self.outcomes if o.error is None), key=lambda o: o.scheduled)

    @property
    def kinds(self) -> Counter[str]:
        """Count the outcomes of each kind; "ok" for the good ones."""
        return Counter(outcome.error or "ok" for outcome in self.outcomes)


def payloads() -> Iterator[Payload]:
    """Requests to the golden server's default model."""
    return Load(0).payloads()


class TargetLoad(Load):
    """A load on a target that is prepared, of its first requests over and over; `numbered`: each has a golden row."""

    def __init__(self, target: Any, count: int = 8, *, numbered: bool = False, **changes: Any) -> None:
        first = [*itertools.islice(target.payloads(None), count)]
        if numbered:
            first = [Payload(payload.request, (number,)) for number, payload in enumerate(first)]
        super().__init__(0, requests=itertools.cycle(first), **changes)
        self._target = target

    def channels(self) -> Any:
        return self._target.connect


def target_at(url: str, *flags: str) -> Any:
    """Prepare the target of a run on the golden model at a URL."""
    target = open_target(of_server(url, *flags, model="golden"))
    target.prepare()
    return target


def answers(config: LoadConfig, count: int = 8) -> Load:
    """Send `count` requests of a run's configuration, one after the other."""
    target = open_target(config)
    target.prepare()
    return TargetLoad(target, count).closed(1, 0, at_least=count)
