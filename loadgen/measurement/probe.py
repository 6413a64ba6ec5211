"""A short closed loop in this process, without Locust: a first look at a server, or its warm-up."""

import time
from collections.abc import Iterator

from loadgen.driver.event_loop import Driver
from loadgen.load.arrivals import ClosedLoopArrivals
from loadgen.sut.channel import Outcome, Payload
from loadgen.sut.target import Target
from servemark import interrupts
from servemark.errors import ServerError


def probe(
    target: Target, requests: Iterator[Payload], concurrency: int, *, least_s: float, timeout_s: float
) -> tuple[float, float]:
    """Measure the smallest latency in ms and the requests/s; it lasts until each connection could have an answer.

    Raises ServerError where no request was answered.
    """
    seen: list[Outcome] = []
    driver = Driver(
        target.connect,
        requests,
        timeout_s=timeout_s,
        max_in_flight=concurrency,
        on_outcome=seen.append,
        on_tick=lambda _now: interrupts.check(),
    )
    try:
        driver.connect(concurrency)
        start = time.monotonic_ns()
        end = start + int(least_s * 1e9)
        driver.run(ClosedLoopArrivals(concurrency, lambda now: now >= end and len(seen) >= concurrency))
        passed_s = (time.monotonic_ns() - start) / 1e9
    finally:
        driver.close()
    good = [outcome.done - outcome.scheduled for outcome in seen if outcome.error is None]
    if not good:
        raise ServerError(f"no request of a first {least_s:g} s was answered: {seen[0].error} {seen[0].message}")
    return min(good) / 1e6, len(good) / passed_s
