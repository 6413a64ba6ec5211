"""Parts of each request's latency by cause, and how the slowest 1 % differ from the median."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from servemark.explain import spans
from servemark.explain.replay import measured_service, replay
from servemark.explain.timeline import Batches, Floats, Machine, Sent, Served, Setup, Usual

TAIL_SHARE = 0.01
FEWEST_IN_TAIL = 5
MEDIAN = (0.4, 0.6)
"""Requests between these quantiles stand for the median."""
CAUSES = {
    "schedule": "sent late by the load generator",
    "connection": "opening a connection",
    "network": "network, front end and client",
    "instance": "waiting for a free instance",
    "batch_fill": "waiting for the batch to fill",
    "model": "computing, as usual alone",
    "batch_size": "computing a larger batch",
    "slower": "computing slower at the same batch",
    "output": "writing outputs",
    "other_work": "other work on the cores",
    "pause": "pauses of the server's process",
    "unexplained": "not explained",
}
"""Each cause in words, in the order of a request's way; the last is what no other explains."""
Places = npt.NDArray[np.intp]
Parts = Mapping[str, Floats]
"""Each cause's part of each request's latency (ns); together they are the latency."""


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of a run's requests."""

    sent: Sent
    served: Served
    machine: Machine
    setup: Setup

    @cached_property
    def batches(self) -> Batches:
        """Executions, as they are recognised."""
        return Batches.recognised(self.served, self.setup.delay_ns)


@dataclass(frozen=True)
class Taken:
    """Stretches that interrupted a request's steps, by step (ns)."""

    way_in: Floats
    queue: Floats
    compute: Floats
    output: Floats
    way_out: Floats

    @property
    def total(self) -> Floats:
        """All of it."""
        return self.way_in + self.queue + self.compute + self.output + self.way_out


def taken(held: spans.Cumulated, sent: Sent, served: Served) -> Taken:
    """Return how long something held within each step."""
    within = held.within
    return Taken(
        within(sent.sent, served.queued),
        within(served.queued, served.started),
        within(served.started, served.output_start),
        within(served.output_start, served.ended),
        within(served.ended, sent.done),
    )


def parts_of(evidence: Evidence) -> dict[str, Floats]:
    """Split each request's latency by cause. `unexplained` is the difference to the latency, so the sum is exact."""
    sent, served, batches = evidence.sent, evidence.served, evidence.batches
    latency = (sent.done - sent.due).astype(float)
    paused = taken(spans.Cumulated.of_spans(*spans.pauses(evidence.machine, batches, served)), sent, served)
    compute = (served.output_start - served.started).astype(float) - paused.compute
    starved = taken(spans.other_work(evidence.machine), sent, served)
    # The usual time of a step is that of one with a core: other work may slow every request alike.
    alone, of_size = _usual_compute(batches, np.maximum(compute - starved.compute, 0))
    way_in = served.queued - sent.sent - paused.way_in
    way_out = sent.done - served.ended - paused.way_out
    output = served.ended - served.output_start - paused.output
    # A wait of a server's thread says nothing of the network and the client, whatever the time.
    slow_output = np.clip(starved.output, 0, np.maximum(output - np.median(output - starved.output), 0))
    slow_compute = np.clip(starved.compute, 0, np.maximum(compute - of_size, 0))
    queue = (served.started - served.queued).astype(float)
    full = spans.all_busy(batches, evidence.setup.instances).within(served.queued, served.started)
    # A pause while all instances are busy holds the batches before; it counts as the pause.
    instance = np.clip(full - paused.queue, 0, None)
    fill = np.clip(queue - paused.queue - instance, 0, evidence.setup.delay_ns)
    # The thread that takes requests from the queue wants a core, too.
    slow_queue = np.clip(starved.queue, 0, np.maximum(queue - paused.queue - instance - fill, 0))
    parts = {
        "schedule": (sent.begun - sent.due).astype(float),
        "connection": (sent.sent - sent.begun).astype(float),
        "network": way_in + way_out,
        "instance": instance,
        "batch_fill": fill,
        "model": np.full(len(latency), alone),
        "batch_size": of_size - alone,
        "slower": compute - of_size - slow_compute,
        "output": output - slow_output,
        "other_work": slow_output + slow_compute + slow_queue,
        "pause": paused.total,
    }
    _follow_on(evidence, parts, paused.compute, slow_compute)
    parts["unexplained"] = latency - np.sum(list(parts.values()), axis=0)
    return parts


def _usual_compute(batches: Batches, compute: Floats) -> tuple[float, Floats]:
    """The usual compute of the smallest batch, and that of each request's own batch size (ns)."""
    each = np.zeros(len(batches.size))
    each[batches.of] = compute  # alike for all requests of a batch
    usual = Usual(batches.size, each)
    return usual.at(int(batches.size.min())), usual.each(batches.size)[batches.of]


def _follow_on(evidence: Evidence, parts: dict[str, Floats], paused: Floats, starved: Floats) -> None:
    """Give a wait for an instance to the cause that held the instance: a replay without it tells by how much.

    `paused` and `starved` are what each request's own batch lost (ns).
    """
    served, batches, setup = evidence.served, evidence.batches, evidence.setup
    if not (paused.any() or starved.any()):
        return
    lost = {"pause": np.zeros(len(batches.start)), "other_work": np.zeros(len(batches.start))}
    lost["pause"][batches.of] = paused
    lost["other_work"][batches.of] = starved
    waits = replay(served.queued, setup, measured_service(batches)).start - served.queued
    for cause, spared in lost.items():
        if spared.any():
            without = replay(served.queued, setup, measured_service(batches, spared)).start - served.queued
            moved = np.clip((waits - without).astype(float), 0, parts["instance"])
            parts["instance"] = parts["instance"] - moved
            parts[cause] = parts[cause] + moved


@dataclass(frozen=True)
class Row:
    """One cause: its part of the median's latency and of the tail's (ms), and its share of the difference."""

    cause: str
    median_ms: float
    tail_ms: float
    excess_ms: float
    share: float


def tail_of(latency: Floats) -> tuple[Places, Places]:
    """Places of the slowest 1 % (5 at least), and of the requests around the median."""
    order = np.argsort(latency, kind="stable")
    count = len(order)
    slow = max(min(FEWEST_IN_TAIL, count), round(TAIL_SHARE * count))
    low, high = (int(share * count) for share in MEDIAN)
    return order[count - slow :], order[low : max(high, low + 1)]


def rows(parts: Parts) -> list[Row]:
    """Compare the slowest with the median, cause by cause. The excesses add up to the whole, exactly by its own row."""
    latency = np.sum(list(parts.values()), axis=0)
    slow, middle = tail_of(latency)
    found = {
        cause: (float(np.mean(part[middle])) / 1e6, float(np.mean(part[slow])) / 1e6) for cause, part in parts.items()
    }
    excess_ms = float(np.mean(latency[slow]) - np.mean(latency[middle])) / 1e6
    return [
        Row(cause, median, tail, tail - median, (tail - median) / excess_ms if excess_ms else 0.0)
        for cause, (median, tail) in found.items()
    ]
