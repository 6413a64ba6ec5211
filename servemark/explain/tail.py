"""Parts of each request's latency by cause, and how the slowest 1 % differ from the median."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from servemark.explain.queue import Batches, Setup, Usual, measured_service, replay
from servemark.explain.timeline import (
    Cumulated,
    Flags,
    Floats,
    Machine,
    Sent,
    Served,
    Times,
    at_least,
    other_share,
    other_work,
    stalled,
    waiting,
)
from servemark.results.schema.explanation import ExplainedPart

TAIL_SHARE = 0.01
FEWEST_IN_TAIL = 5
MEDIAN = (0.4, 0.6)
"""Requests between these quantiles stand for the median."""
CAUSES = {
    "schedule": "sent late by the load generator",
    "in_flight": "waiting to be sent: the server is behind, with --max-in-flight requests unanswered",
    "connection": "opening a connection",
    "network": "network, front end and client",
    "instance": "waiting for a free instance",
    "batch_fill": "the queue delay: waiting it out, and computing what came meanwhile",
    "model": "computing, as usual alone",
    "batch_size": "filling and computing a larger batch",
    "size_change": "executions after a change of the batch size",
    "cold": "the first executions of a cold model",
    "variation": "computing, as it usually varies",
    "slower": "executions that are slower than they vary",
    "output": "writing outputs, and sending large ones",
    "other_work": "other work on the cores",
    "pause": "pauses of the server's process",
    "unexplained": "not explained",
}
"""Each cause in words, in the order of a request's way; the last is what no other explains."""
WAY = "service"
"""The cause of everything between request and answer, where no trace tells it apart."""
WORDS = {**CAUSES, WAY: "between request and answer: network, queue, computing"}
FASTEST = 5
"""Percentile of a step's time that nothing disturbed."""
FULL_SHARE = 0.99
"""With this share of --max-in-flight in flight, a request that has not been sent waits for the server."""
LARGE_ANSWER = 256 << 10
"""An answer that is larger than its request by so many bytes takes longer for its way because of its size."""
LATE_NS = 1_000_000
"""A load generator that is so late with a request stood still."""
SLOW = 3
"""An execution that takes this many times as long as usual does not vary, but is slower."""
FOLLOWED = ("pause", "other_work", "size_change", "cold", "slower")
"""Causes that make an execution longer, so that others wait for its instance."""
LARGE_CHANGE, LARGE_CHANGE_NS = 0.5, 500_000
"""A change of the batch size that costs more than this share of a mean execution, and more than this time, is a cause:
some engines choose their kernels anew for each."""
COLD_SHARE, WARM_EXECUTIONS = 0.5, 5
"""A model is cold until this many executions in a row take less than this share more than usual."""
STILL_SHARE = 0.02
"""A process that used less of its time than this stood still."""
SHORTEST_PAUSE_NS = 20_000_000
"""A machine that shares its cores stops everybody for some milliseconds now and then: that is contention."""
STARVED_SHARE = 0.5
"""A server whose threads wanted a core for more of a still stretch than this had none: that is other work."""
PAUSE_SERVICES = 3
"""A pause is longer than so many usual executions, or changes of the batch size: a CPU is idle while a GPU computes."""
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

    @cached_property
    def cost_of_change(self) -> float | None:
        """Time that a change of the batch size costs (ns); None where it is not known, as of several instances."""
        return self.batches.cost_of_change() if self.setup.instances == 1 else None

    @cached_property
    def change_ns(self) -> float:
        """The same where it is large enough to be a cause, else 0."""
        found = self.cost_of_change
        least = max(LARGE_CHANGE_NS, LARGE_CHANGE * float(self.batches.service.mean()))
        return found if found is not None and found >= least else 0.0

    @cached_property
    def pauses(self) -> tuple[Times, Times]:
        """Starts and ends of the server's pauses (ns)."""
        return pauses_of(self.machine, self.batches, self.served, self.change_ns)


def pauses_of(machine: Machine, batches: Batches, served: Served, change_ns: float = 0.0) -> tuple[Times, Times]:
    """Return starts and ends of the server's pauses: its CPU time stood still, and no request made a step.

    Somebody had stopped it, or it executed a batch all the while: a server that waits for requests does not pause, nor
    does one whose threads wait for a core.
    """
    if len(machine.at) < 2 or not len(batches.start):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    still = (np.diff(machine.server_cpu) < STILL_SHARE * np.diff(machine.at)) & ~stalled(machine)
    edge = np.diff(np.concatenate([[False], still, [False]]).astype(int))
    first, last = machine.at[np.flatnonzero(edge == 1)], machine.at[np.flatnonzero(edge == -1)]
    events = np.sort(np.concatenate([served.queued, served.started, served.ended]))
    # What happened in a still stretch cuts it.
    at = np.unique(np.concatenate([first, last, events]))
    starts, ends = at[:-1], at[1:]
    inside = Cumulated.of_spans(first, last).within(starts, ends) >= 0.999 * (ends - starts)
    least = max(SHORTEST_PAUSE_NS, PAUSE_SERVICES * max(float(np.median(batches.service)), change_ns))
    long = inside & (ends - starts >= least)
    starts, ends = starts[long], ends[long]
    stopped = np.interp(ends, machine.at, machine.stopped) - np.interp(starts, machine.at, machine.stopped) >= 1
    spans = zip(starts, ends, strict=True)
    executed = np.array([((served.started <= start) & (served.ended >= end)).any() for start, end in spans], dtype=bool)
    starved = waiting(machine, machine.waited).within(starts, ends) > STARVED_SHARE * (ends - starts)
    had_work = (executed & ~starved) | stopped
    return starts[had_work], ends[had_work]


def latency_of(parts: Parts) -> Floats:
    """Each request's latency (ns)."""
    found: Floats = np.sum(list(parts.values()), axis=0)
    return found


class Interruptions:
    """Stretches that interrupted requests: pauses of the server, and other work on the cores."""

    def __init__(self, evidence: Evidence) -> None:
        machine = evidence.machine
        self.paused = Cumulated.of_spans(*evidence.pauses).within
        self.starved = other_work(machine, machine.waited).within
        """Time without a core in which a thread of the server wanted one."""
        self.client_starved = other_work(machine, machine.client_waited).within
        self._at, self._share = machine.at, other_share(machine)

    def others_share(self, at: Times) -> Floats:
        """Return the share of the used cores that others had around these times."""
        if not len(self._share):
            return np.zeros(len(at))
        found: Floats = self._share[np.clip(np.searchsorted(self._at, at) - 1, 0, len(self._share) - 1)]
        return found

    def step(self, start: Times, end: Times, lost: Floats, cause: str) -> dict[str, Floats]:
        """Split a step of the way into pauses, what it `lost` to other work, and the rest, which is the cause's.

        The fastest ones have lost nothing, so they say how long the step takes.
        """
        pause = self.paused(start, end)
        step = (end - start) - pause
        other = np.clip(lost, 0, np.maximum(step - np.percentile(step, FASTEST), 0))
        return {cause: step - other, "pause": pause, "other_work": other}


def parts_of(evidence: Evidence) -> dict[str, Floats]:
    """Split each request's latency by cause. `unexplained` is the difference to the latency, so the sum is exact."""
    sent, held = evidence.sent, Interruptions(evidence)
    latency = (sent.done - sent.due).astype(float)
    parts = {cause: np.zeros(len(latency)) for cause in CAUSES}
    compute = _compute(evidence, held)
    for found in (*_ways(evidence, held), _queue(evidence, held), compute):
        for cause, time in found.items():
            parts[cause] = parts[cause] + time
    # What made a batch is the cause of the wait for it, and of its longer execution.
    batch, delayed = parts["batch_fill"] + parts["batch_size"], _delayed(evidence, parts["batch_fill"])
    parts["batch_fill"], parts["batch_size"] = np.where(delayed, batch, 0), np.where(delayed, 0, batch)
    _follow_on(evidence, parts, {cause: compute[cause] for cause in FOLLOWED})
    parts["unexplained"] = latency - latency_of(parts)
    return parts


def _ways(evidence: Evidence, held: Interruptions) -> Iterator[dict[str, Floats]]:
    """Split everything before the queue and after the execution; threads of both sides work on those."""
    sent, served = evidence.sent, evidence.served
    behind = held_back(sent, evidence.setup)
    late = sent.begun - sent.due - behind
    other = np.clip(held.client_starved(sent.due, sent.begun), 0, np.maximum(late - np.percentile(late, FASTEST), 0))
    yield {"in_flight": behind, "schedule": late - other, "other_work": other}
    yield {"connection": (sent.sent - sent.begun).astype(float)}
    steps = [
        held.step(start, end, np.maximum(held.starved(start, end), held.client_starved(start, end)), "network")
        for start, end in ((sent.sent, served.queued), (served.ended, sent.done))
    ]
    # An answer that came while the load generator was late with other requests was read late.
    back = steps[1]["network"]
    read_late = np.minimum(_stalls(sent, late).within(served.ended, sent.done), np.maximum(back - np.median(back), 0))
    yield from (*steps, {"schedule": read_late, "network": -read_late})
    if evidence.setup.answer_surplus >= LARGE_ANSWER:
        # The request's way tells what the network and the front end take for anything.
        by_size = np.maximum(back - read_late - np.median(steps[0]["network"]), 0)
        yield {"output": by_size, "network": -by_size}
    start, end = served.output_start, served.ended
    yield held.step(start, end, held.starved(start, end), "output")


def _queue(evidence: Evidence, held: Interruptions) -> dict[str, Floats]:
    """Split the wait in the queue. A batch that was full ended it, or else the queue delay."""
    served, batches, setup = evidence.served, evidence.batches, evidence.setup
    pause = held.paused(served.queued, served.started)
    waited = (served.started - served.queued) - pause
    # A pause while all instances are busy holds the batches before; it counts as the pause.
    handed = batches.end + round(batches.handover)
    busy = at_least(setup.instances, batches.start, handed).within(served.queued, served.started)
    instance = np.minimum(np.maximum(busy - pause, 0), waited)
    fill = np.minimum(waited - instance, setup.delay_ns)
    # The thread that takes requests from the queue wants a core, too.
    other = np.minimum(held.starved(served.queued, served.started), waited - instance - fill)
    return {"pause": pause, "instance": instance, "batch_fill": fill, "other_work": other}


def _delayed(evidence: Evidence, fill: Floats) -> Flags:
    """Requests of batches that the queue delay made: one of them waited for others, and the batch was not full."""
    batches = evidence.batches
    waited = np.zeros(len(batches.size))
    np.maximum.at(waited, batches.of, fill)
    found: Flags = ((waited > 0) & (batches.size < evidence.setup.wanted))[batches.of]
    return found


def _compute(evidence: Evidence, held: Interruptions) -> dict[str, Floats]:
    """Split the execution. The usual time is that with a core: other work may slow every request alike."""
    served, batches = evidence.served, evidence.batches
    start, end = served.started, served.output_start
    pause, lost = held.paused(start, end), held.starved(start, end)
    compute = (end - start) - pause
    each = np.zeros(len(batches.size))
    each[batches.of] = np.maximum(compute - lost, 0)  # alike for all requests of a batch
    changed = batches.changed & (evidence.change_ns > 0)
    usual = Usual(batches.size[~changed], each[~changed])
    alone, of_size = usual.at(1), usual.each(batches.size)[batches.of]
    longer = compute - of_size
    change = np.where(changed[batches.of], np.clip(longer, 0, evidence.change_ns), 0)
    longer = longer - change
    # Other work also slows who has a core: caches and hyperthreads are shared.
    lost = np.maximum(lost, held.others_share(start) * longer)
    other = np.clip(lost, 0, np.maximum(longer, 0))
    rest = longer - other
    exceptional = np.where(longer > (SLOW - 1) * of_size, np.maximum(rest, 0), 0)
    cold = np.where(_cold(batches, longer, of_size), np.maximum(rest, 0), 0)
    slower = np.where(cold > 0, 0, exceptional)
    return {
        "model": np.full(len(compute), alone),
        "batch_size": of_size - alone,
        "size_change": change,
        "cold": cold,
        "variation": rest - cold - slower,
        "slower": slower,
        "other_work": other,
        "pause": pause,
    }


def held_back(sent: Sent, setup: Setup) -> Floats:
    """Return for how long each request waited because as many as the limit were in flight (ns).

    An answer leaves its place free until the load generator has read it and sent the next request.
    """
    return at_least(math.ceil(FULL_SHARE * setup.in_flight), sent.begun, sent.done).within(sent.due, sent.begun)


def _stalls(sent: Sent, by: Floats) -> Cumulated:
    """Time in which the load generator was late with a request, each by some ns."""
    late = by >= LATE_NS
    ends = sent.begun[late]
    starts = ends - by[late].astype(np.int64)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    if not len(starts):
        return Cumulated(starts, np.zeros(0))
    first = np.concatenate([[True], starts[1:] > ends[:-1]])
    return Cumulated.of_spans(starts[first], ends[np.concatenate([first[1:], [True]])])


def _cold(batches: Batches, slower: Floats, of_size: Floats) -> Flags:
    """Requests of the executions before the first that were as fast as usual."""
    warm = np.zeros(len(batches.size), dtype=bool)
    warm[batches.of] = slower <= COLD_SHARE * of_size
    ran = np.convolve(warm, np.ones(WARM_EXECUTIONS), "valid") == WARM_EXECUTIONS
    return batches.of < (int(np.argmax(ran)) if ran.any() else 0)


def _follow_on(evidence: Evidence, parts: dict[str, Floats], lost: Mapping[str, Floats]) -> None:
    """Give a wait for an instance to the cause that made it: a replay without that tells by how much.

    `lost` is what each request's own batch lost, by cause (ns). A load generator that is late sends in bursts.
    """
    served, batches, setup = evidence.served, evidence.batches, evidence.setup
    service = measured_service(batches)
    waits = replay(served.queued, setup, service).start - served.queued

    def move(cause: str, without: Times) -> None:
        moved = np.clip((waits - without).astype(float), 0, parts["instance"])
        parts["instance"] = parts["instance"] - moved
        parts[cause] = parts[cause] + moved

    late = evidence.sent.begun - evidence.sent.due - held_back(evidence.sent, setup)
    if (late >= LATE_NS).any():
        in_time = served.queued - late.astype(np.int64)
        move("schedule", replay(in_time, setup, service).start - in_time)
    for cause, own in lost.items():
        if own.any():
            spared = np.zeros(len(batches.start))
            spared[batches.of] = own
            move(cause, replay(served.queued, setup, measured_service(batches, spared)).start - served.queued)


def tail_of(latency: Floats) -> tuple[Places, Places]:
    """Places of the slowest 1 % (5 at least), and of the requests around the median."""
    order = np.argsort(latency, kind="stable")
    count = len(order)
    slow = max(min(FEWEST_IN_TAIL, count), round(TAIL_SHARE * count))
    low, high = (int(share * count) for share in MEDIAN)
    return order[count - slow :], order[low : max(high, low + 1)]


def rows(parts: Parts) -> list[ExplainedPart]:
    """Compare the slowest with the median, cause by cause. The excesses add up to the whole, exactly by its own row."""
    latency = latency_of(parts)
    slow, middle = tail_of(latency)
    found = {
        cause: (float(np.mean(part[middle])) / 1e6, float(np.mean(part[slow])) / 1e6) for cause, part in parts.items()
    }
    excess_ms = float(np.mean(latency[slow]) - np.mean(latency[middle])) / 1e6
    return [
        {
            "cause": cause,
            "words": WORDS[cause],
            "median_ms": median,
            "tail_ms": tail,
            "excess_ms": tail - median,
            "share": (tail - median) / excess_ms if excess_ms else 0.0,
        }
        for cause, (median, tail) in found.items()
    ]
