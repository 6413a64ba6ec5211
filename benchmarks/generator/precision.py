"""Precision of the meter: measured times compared with the server's own log.

    python -m benchmarks.generator.precision

The golden server (tests/golden/server.py) is another process; its clock is CLOCK_MONOTONIC too, and it notes when a
request came and when its answer was written. It is Python, so that it answers later than it is told: what it did
counts. It polls and never sleeps: a core that was idle needs 0.1 ms and more to wake up in a virtual machine, which
would lie between the sending of a request and the server's note of it. What a run measures beyond the log is the way
there and back, with the generator's own wake-ups.
"""

import os
import select
import socket
import struct
import time

import numpy as np
import numpy.typing as npt

from benchmarks.rig.aims import Aim, check
from servemark.stats.histogram import Histogram
from tests.golden.behaviour import Behaviour
from tests.golden.load import Load, constant_ns
from tests.golden.server import GoldenServer

DELAYS_MS = (0.2, 1, 10, 100)
REQUESTS, MAX_DURATION_S = 400, 4.0
CONSTANT_MS, SHARE = 0.05, 0.02
"""The aim: within 50 µs + 2 % of what the server did."""
OUTLIER_EVERY, OUTLIERS, OUTLIER_S = 999, 11, 0.02
"""With one in 1,000 nearest rank would make p99.9 the slowest of the others."""
OUTLIER_RATE, OUTLIER_CONNECTIONS = 1000, 64
ASLEEP_MS = (0.2, 1, 10, 100)
WAKES = 300
Times = npt.NDArray[np.int64]


def precision(_pairs: int = 0, _seconds: float = 0.0) -> None:
    """Print percentiles beside the server's: p50 for each delay and loop, then p99.9 of a rare outlier."""
    wake_up()
    print("service time of servemark beside what the golden server did (its log), HTTP", flush=True)
    for delay_ms in DELAYS_MS:
        count = min(REQUESTS, round(MAX_DURATION_S * 1e3 / delay_ms))
        golden = Behaviour(delay_s=delay_ms / 1e3, awake=True)
        for loop, rate in (("closed", None), ("open", 0.5e3 / (delay_ms + 0.5))):
            _print(f"{loop} loop, delay {delay_ms:g} ms", 50, *times_ns(golden, count, rate))
    golden = Behaviour(delay_s=1e-3, awake=True, slow_every=OUTLIER_EVERY, slow_s=OUTLIER_S)
    ours, theirs = times_ns(golden, OUTLIER_EVERY * OUTLIERS, OUTLIER_RATE, OUTLIER_CONNECTIONS)
    _print(f"one request in {OUTLIER_EVERY} takes {OUTLIER_S * 1e3:g} ms more", 99.9, ours, theirs)


def times_ns(golden: Behaviour, count: int, rate: float | None, connections: int = 1) -> tuple[Times, Times]:
    """Ours, from sending to the answer, and the server's, from arrival to the written answer."""
    with GoldenServer(**vars(golden)) as server:
        load = Load(server.port, connect=connections, max_in_flight=connections)
        if rate is None:
            load.closed(1, count * golden.delay_s)
        else:
            load.open(constant_ns(rate, count))
        log = server.requests()
    assert load.kinds == {"ok": len(log)}, load.kinds
    return (
        np.array([each.done - each.sent for each in load.good], np.int64),
        np.array([entry["written_ns"] - entry["arrival_ns"] for entry in log], np.int64),
    )


def _print(what: str, percentile: float, ours: Times, theirs: Times) -> None:
    """One line; ours comes out of the recorder's histogram, the server's exactly."""
    histogram = Histogram()
    histogram.record(ours)
    found_ms = histogram.percentile(percentile)
    did_ms = float(np.percentile(theirs, percentile, method="inverted_cdf")) / 1e6
    limit_ms = CONSTANT_MS + SHARE * did_ms
    shown = f"{what}: p{percentile:g} {found_ms:.3f} ms of {len(ours):,}, the server's {did_ms:.3f} ms; off by"
    print(check(shown, found_ms - did_ms, Aim(-limit_ms, limit_ms), "ms"), flush=True)


def wake_up() -> None:
    """Print the time from a write on one core to the reader's clock on another, by how long the reader slept.

    It bounds the precision of a meter in another process.
    """
    for asleep_ms in ASLEEP_MS:
        took_us = wake_ups_us(asleep_ms, min(WAKES, round(MAX_DURATION_S * 1e3 / asleep_ms)))
        p50, p90 = np.percentile(took_us, (50, 90))
        print(f"a process that slept {asleep_ms:g} ms wakes up in {p50:.0f} µs (p50), {p90:.0f} µs (p90)", flush=True)


def wake_ups_us(asleep_ms: float, count: int) -> list[float]:
    """From the writer's clock to the reader's, in µs; the writer polls the clock and never sleeps."""
    ours, theirs = socket.socketpair()
    writer = os.fork()
    if not writer:
        for _ in range(count):
            until = time.monotonic_ns() + round(asleep_ms * 1e6)
            while time.monotonic_ns() < until:
                pass
            theirs.send(struct.pack("q", time.monotonic_ns()))
        os._exit(0)
    took_us = []
    with ours, theirs, select.epoll() as epoll:
        epoll.register(ours, select.EPOLLIN)
        for _ in range(count):
            epoll.poll()
            [sent] = struct.unpack("q", ours.recv(8))
            took_us.append((time.monotonic_ns() - sent) / 1e3)
    os.waitpid(writer, 0)
    return took_us


if __name__ == "__main__":
    precision()
