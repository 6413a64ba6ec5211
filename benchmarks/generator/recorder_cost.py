"""Cost of recording one request, in ns of CPU: handing over its outcome, and its share of the counting."""

import time

import numpy as np

from loadgen.driver.connections import MS
from loadgen.measurement.recorder import FLUSH_NS, Recorder
from loadgen.measurement.windows import Interval
from loadgen.sut.channel import Outcome, Payload

OUTCOMES = 1_000_000
ROUNDS = 5
RATES = (1_000, 10_000, 50_000)
"""Requests/s: each counting handles what came in 50 ms, so that a low rate shares its fixed part among fewer."""


def recorder_cost(_pairs: int = 0, _seconds: float = 0.0) -> None:
    """Print the least of several rounds at each rate: time that other processes add is not a cost of ours."""
    print(f"recorder, ns of CPU for each request, least of {ROUNDS} rounds of up to {OUTCOMES:,}")
    for rate in RATES:
        taken, counted = (min(each) for each in zip(*(one_round(rate) for _ in range(ROUNDS)), strict=True))
        print(f"at {rate:,} requests/s: {taken:.0f} to take, {counted:.0f} to count", flush=True)


def one_round(rate: int) -> tuple[float, float]:
    """Ns for each request of taking outcomes, and of counting them."""
    at_once = rate * FLUSH_NS // 1_000_000_000
    flushes = min(OUTCOMES // at_once, 1000)
    recorder = Recorder(Interval(0, flushes * FLUSH_NS, 10))
    latency = np.random.default_rng(0).lognormal(np.log(2 * MS), 0.5, at_once).astype(np.int64).tolist()
    payload = Payload(b"")
    taking = counting = 0
    for flush in range(flushes):
        start = flush * FLUSH_NS
        outcomes = [Outcome(payload, start, start + 20_000, start + ns, None, "", None) for ns in latency]
        before = time.thread_time_ns()
        for outcome in outcomes:
            recorder.outcome(outcome)
        between = time.thread_time_ns()
        recorder.flush()
        counting += time.thread_time_ns() - between
        taking += between - before
    return taking / (flushes * at_once), counting / (flushes * at_once)


if __name__ == "__main__":
    recorder_cost()
