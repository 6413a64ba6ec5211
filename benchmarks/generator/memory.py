"""Memory after millions of requests: the real driver, recorder and Locust statistics over channels that answer at once.

python -m benchmarks.generator.memory
"""

import itertools
import os
import time
from collections.abc import Sequence

import psutil

from benchmarks.rig.aims import Aim, check
from loadgen.driver.connections import Connections
from loadgen.driver.event_loop import Driver
from loadgen.load.arrivals import ClosedLoopArrivals
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import READ, Answer, Payload, State
from servemark.workload import Arrays, Tensor

MILLION, MIB = 1_000_000, 1 << 20
SHOWN = (1, 2, 5, 10)
"""Millions of requests after which memory is read."""
FLAT = Aim(most=4.0)
"""Maximum growth in MiB after the first million requests: the histograms of ten windows take 1.8 when all are in use.
Three numbers kept of each request would add 206."""
CONCURRENCY = 32
S = 1_000_000_000


class NullAnswer:
    """An answer that is right."""

    error: str | None = None
    size = 256

    def message(self) -> str:
        return ""

    def arrays(self, outputs: Sequence[Tensor]) -> Arrays:  # noqa: ARG002 - the interface
        return {}


ANSWER = NullAnswer()


class NullChannel:
    """Always readable: every request is answered as soon as the driver looks."""

    fd, state = -1, State.CLOSED
    wants = watched = scheduled = deadline = sent = done = 0
    payload: Payload | None = None

    def open(self) -> None:
        self.fd = os.eventfd(1, os.EFD_NONBLOCK)
        self.state = State.CONNECTING
        self.wants = READ

    def connected(self) -> None:
        self.state = State.IDLE

    def start(self) -> None:
        self.state = State.BUSY

    def writable(self) -> None:
        """Never wanted."""

    def readable(self) -> Answer | None:
        self.done = time.monotonic_ns()
        self.state = State.IDLE
        return ANSWER

    def on_unsolicited_data(self) -> bool:
        return True

    def cancel(self) -> bool:
        return False

    def close(self) -> None:
        os.close(self.fd)
        self.state = State.CLOSED
        self.wants = self.watched = 0


def memory(_pairs: int = 0, _seconds: float = 0.0) -> None:
    """Print resident memory on the way to 10 million requests."""
    last = SHOWN[-1] * MILLION
    print(f"driver, recorder and Locust's statistics, closed loop of {CONCURRENCY}, {last:,} requests", flush=True)
    mib = read_on_the_way([millions * MILLION for millions in SHOWN])
    print(check("growth after the first million", mib[-1] - mib[0], FLAT, "MiB"))


def read_on_the_way(counts: Sequence[int]) -> list[float]:
    """Return the resident MiB at these numbers of answers, in a closed loop whose interval must include the last."""
    from locust.env import Environment  # patches this process for gevent, which no other benchmark wants

    from loadgen.locust_bridge.locust_statistics import LocustStatistics

    process, environment = psutil.Process(), Environment()
    environment.create_local_runner()  # what keeps Locust's statistics
    statistics = LocustStatistics(environment)
    statistics.begin("null")
    start = time.monotonic_ns()
    recorder = Recorder(Interval(start, start + 10 * S, 10), least=counts[-1])
    found: list[float] = []

    recorder.on_counted = statistics.good

    def tick(now: int) -> None:
        recorder.tick(now)
        time.sleep(0)  # the turn of Locust's greenlets, as in a run
        while len(found) < len(counts) and recorder.scheduled >= counts[len(found)]:
            found.append(process.memory_info().rss / MIB)
            print(f"after {counts[len(found) - 1]:,} requests: {found[-1]:.1f} MiB resident", flush=True)

    connections = Connections(NullChannel, CONCURRENCY)
    requests = itertools.repeat(Payload(b""))
    driver = Driver(connections, requests, timeout_s=60, on_outcome=recorder.outcome, on_good=recorder.on_good)
    connections.open_ahead(CONCURRENCY)
    driver.run(ClosedLoopArrivals(CONCURRENCY, recorder.is_over), tick)
    connections.close()
    recorder.flush()
    tick(time.monotonic_ns())
    assert environment.stats.total.num_requests >= counts[-1]
    return found


if __name__ == "__main__":
    memory()
