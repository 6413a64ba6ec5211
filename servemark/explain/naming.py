"""The cause that a sentence names: a large part of the requests' time that a change would take away, and changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from servemark.explain.queue import Setup, measured_service, replay
from servemark.explain.tail import LATE_NS, SLOW, Evidence, Parts, latency_of
from servemark.explain.timeline import Floats
from servemark.quantities import figure
from servemark.results.schema.explanation import ExplainedPart, Fix, Pauses, Queueing

REPLAYED = "a replay of the measured arrivals and service times"
IN_PROPORTION = "; no other batch size was executed, so the time of smaller ones is taken in proportion"
FEW_CORES = "more instances share these cores: a replay predicts no shorter p99"
TAKEN_OFF = "the measured latencies without this part"
AT_MOST = "the measured latencies without this part: the least that p99 can become"

Percentiles = tuple[float, float]
"""p50 and p99 (ms)."""
Changes = Iterator[tuple[str, dict[str, int], Setup]]
"""In words, as settings of the model, and as the queue's."""
_WORDS: Mapping[str, tuple[str, str]] = {
    "in_flight": ("a lower rate, or a server that answers more: the others' causes say how", TAKEN_OFF),
    "schedule": ("a load generator with a core of its own, or --workers", TAKEN_OFF),
    "connection": ("connections that are kept open, and as many as there are requests in flight", TAKEN_OFF),
    "network": ("a client nearer to the server, or --shared-memory system on the same machine", AT_MOST),
    "size_change": (
        "batches of few sizes: preferred_batch_size, requests of one size, or an engine that chooses kernels once"
        " (onnxruntime:cuda_graph=true on a GPU)",
        TAKEN_OFF,
    ),
    "cold": ("a warm model: model_warmup in its configuration, or --warmup", TAKEN_OFF),
    "other_work": ("a quiet machine: end the other work, or give the server cores of its own", TAKEN_OFF),
    "pause": ("find what stops the server's process: a quota, a debugger, swapping, a snapshot", TAKEN_OFF),
    "output": ("outputs that stay on the server, or --shared-memory system", AT_MOST),
}
NAMED_SHARE, NAMED_SHARE_OF_TAIL = 0.2, 0.25
"""A cause is named from these shares of the latency on, of the usual requests' or of the slowest ones'."""
NAMED_MS = 0.5
ORDINARY_NETWORK_MS = 1.0
"""Time for a front end and a network that nobody asks about."""
ORDINARY_WAIT = 1.0
"""Waits for an instance are named where their mean is this share of a mean service time. One instance is then busy for
two thirds of the time (M/D/1). Below, a tail of waits is what random arrivals make."""
GAIN = 0.1
"""A batching setting is named where its change is predicted to take this share of p50 or p99 away."""
OFTEN = 0.02
"""Slow executions, and requests that were sent late, are named from this share of all on. Rarer ones happen on every
machine that does other things."""
UNAVOIDABLE = {"model", "variation", "unexplained"}
BATCHING = {"batch_fill", "batch_size"}


@dataclass(frozen=True)
class Replays:
    """Predicts latencies under other settings: the measured ones, times the ratio of two replays."""

    evidence: Evidence
    latency: Floats

    def under(self, setup: Setup) -> Percentiles:
        """Percentiles under another setup (ms).

        A replay forms other batches than the server did, so requests are not compared one by one.
        """
        now, other = self._replayed(self.evidence.setup), self._replayed(setup)
        p50, p99 = (of(self.latency) * of(other) / of(now) for of in (p50_ms, p99_ms))
        return p50, p99

    def _replayed(self, setup: Setup) -> Floats:
        """Latencies (ns): what was outside queue and execution as measured, and the rest replayed."""
        served, batches = self.evidence.served, self.evidence.batches
        service, slower = measured_service(batches), self._crowding(setup)
        replayed = replay(served.queued, setup, lambda begin, size: slower * service(begin, size), endless=True)
        return self.latency - served.ended + replayed.end - batches.handover

    def _crowding(self, setup: Setup) -> float:
        """Factor by which executions take longer where the cores are too few for all instances at once."""
        machine, batches = self.evidence.machine, self.evidence.batches
        if setup.instances <= self.evidence.setup.instances or len(machine.at) < 2:
            return 1.0
        passed = float(machine.at[-1] - machine.at[0])
        server = float(machine.server_cpu[-1] - machine.server_cpu[0])
        beside = max(float(machine.busy[-1] - machine.busy[0]) - server, 0.0) / passed
        each = server / max(float(batches.service.sum()), 1.0)
        free = max(machine.cores - beside, 0.1)
        return max(1.0, setup.instances * each / free) / max(1.0, self.evidence.setup.instances * each / free)


def p50_ms(latency: Floats) -> float:
    """Median of latencies in ns (ms)."""
    return float(np.median(latency)) / 1e6


def p99_ms(latency: Floats) -> float:
    """p99 of latencies in ns (ms)."""
    return float(np.percentile(latency, 99)) / 1e6


def fixes_of(cause: str, evidence: Evidence, parts: Parts) -> list[Fix]:
    """Changes for a cause, those with the largest predicted gain first."""
    latency = latency_of(parts)
    found: list[Fix] = []
    if cause in _SETUPS:
        replays = Replays(evidence, latency)
        basis = REPLAYED + IN_PROPORTION * (cause == "batch_size" and evidence.batches.usual.proportional)
        changes = _SETUPS[cause](evidence)
        found = [_fix(words, basis, replays.under(setup), settings) for words, settings, setup in changes]
    elif cause == "slower":
        words = "fewer threads for each instance (intra_op_thread_count)"
        found = [_fix(words, "no measured service time at fewer threads")]
    elif cause in _WORDS:
        less = latency - parts[cause]
        found = [_fix(*_WORDS[cause], (p50_ms(less), p99_ms(less)))]
    found.sort(key=lambda fix: (fix["p50_ms"] or 0.0) + (fix["p99_ms"] or 0.0))
    if cause == "instance" and (found[0]["p99_ms"] or 0.0) >= p99_ms(latency):
        words = "more cores, a faster engine or precision, or a lower rate"
        return [_fix(words, FEW_CORES)]
    return found


def _fix(words: str, basis: str, found: Percentiles | None = None, settings: dict[str, int] | None = None) -> Fix:
    """A change with the percentiles that are predicted, where any are."""
    p50, p99 = found or (None, None)
    return {"words": words, "settings": settings or {}, "p50_ms": p50, "p99_ms": p99, "basis": basis}


def _more_instances(evidence: Evidence) -> Changes:
    setup = evidence.setup
    more = setup.instances + 1
    yield f"{more} instances: instance_group count {more}", {"instances": more}, replace(setup, instances=more)


def _shorter_delay(evidence: Evidence) -> Changes:
    setup = evidence.setup
    for delay_ns in (0, setup.delay_ns // 4):
        words = "no queue delay" if not delay_ns else f"a queue delay of {delay_ns / 1e6:g} ms"
        micros = delay_ns // 1000
        yield (
            f"{words}: max_queue_delay_microseconds {micros}",
            {"queue_delay_us": micros},
            replace(setup, delay_ns=delay_ns),
        )


def _smaller_batches(evidence: Evidence) -> Changes:
    setup, largest = evidence.setup, int(evidence.batches.size.max())
    size = 1 << (largest - 1).bit_length() >> 1
    while size >= 1:
        preferred = tuple(each for each in setup.preferred if each <= size)
        changed = replace(setup, max_batch=size, preferred=preferred)
        words = "no batches" if size == 1 else f"batches of at most {size} requests"
        yield f"{words}: max_batch_size {size * setup.samples}", {"max_requests": size}, changed
        size //= 2


_SETUPS = {"instance": _more_instances, "batch_fill": _shorter_delay, "batch_size": _smaller_batches}


@dataclass(frozen=True)
class Named:
    """A cause with its parts and its changes; without one none stands out."""

    row: ExplainedPart | None
    fixes: Sequence[Fix] = ()


def name(rows: Sequence[ExplainedPart], evidence: Evidence, parts: Parts) -> Named:
    """Choose the cause with the largest share of the latency, that of the median and of the slowest alike.

    A batching setting must have a change that is predicted to help. Waits that random arrivals make, and what happens
    rarely on every machine, are left aside.
    """
    asked = [row for row in rows if not (row["cause"] == "instance" and _ordinary(evidence, parts))]
    median_ms, tail_ms = sum(row["median_ms"] for row in asked), sum(row["tail_ms"] for row in asked)
    never_named = UNAVOIDABLE | _rare(evidence, parts)
    found = [(0.0, Named(None))]
    for row in asked:
        ordinary = ORDINARY_NETWORK_MS * (row["cause"] == "network")
        median, tail = (max(amount - ordinary, 0.0) for amount in (row["median_ms"], row["tail_ms"]))
        shares = [median / max(median_ms, 1e-6), tail / max(tail_ms, 1e-6)]
        of_median, of_tail = shares[0] >= NAMED_SHARE, shares[1] >= NAMED_SHARE_OF_TAIL
        if row["cause"] in never_named or max(median * of_median, tail * of_tail) < NAMED_MS:
            continue
        fixes = fixes_of(row["cause"], evidence, parts)
        if row["cause"] not in BATCHING or max(_gains(fixes, parts), default=0.0) >= GAIN:
            found.append((sum(shares), Named(row, fixes)))
    return max(found, key=lambda each: each[0])[1]


def _gains(fixes: Sequence[Fix], parts: Parts) -> list[float]:
    """Shares of p50 and p99 that the first change is predicted to take away."""
    latency = latency_of(parts)
    changes = [(fix["p50_ms"] or 0.0, fix["p99_ms"] or 0.0) for fix in fixes[:1]]
    return [1 - pair[key] / now for pair in changes for key, now in enumerate((p50_ms(latency), p99_ms(latency)))]


def _ordinary(evidence: Evidence, parts: Parts) -> bool:
    return float(parts["instance"].mean()) < ORDINARY_WAIT * float(evidence.batches.service.mean())


def _rare(evidence: Evidence, parts: Parts) -> set[str]:
    """Causes of few executions or requests, which happen on every machine."""
    batches = evidence.batches
    shares = {
        "slower": (batches.service > SLOW * batches.usual.each(batches.size)).mean(),
        "schedule": (parts["schedule"] >= LATE_NS).mean(),
    }
    return {cause for cause, share in shares.items() if share < OFTEN}


def sentence(named: Named, rows: Sequence[ExplainedPart], latency: Floats, queueing: Queueing, pauses: Pauses) -> str:
    """Say the cause with its figures, of the whole latency and of the slowest requests."""
    by_cause = {row["cause"]: row for row in rows}
    tail_ms = sum(row["tail_ms"] for row in rows)
    start = (
        f"p50 is {figure(p50_ms(latency))} ms and p99 {figure(p99_ms(latency))} ms, of which the model alone computes"
    )
    start += f" {figure(by_cause['model']['median_ms'])} ms"
    unknown = by_cause["unexplained"]["tail_ms"]
    left = f"; {figure(unknown)} ms of those are not explained" if unknown > NAMED_SHARE * tail_ms else ""
    if named.row is None:
        return f"Nothing stands out: {start}, at {queueing['utilization']:.0%} utilisation{left}."
    row, more = named.row, _more(named.row["cause"], rows, queueing, pauses)
    return (
        f"{start}: {figure(row['median_ms'])} ms of the median and {figure(row['tail_ms'])} ms of the slowest 1 % "
        f"({figure(tail_ms)} ms) are {row['words']}{more}{left}."
    )


def _more(cause: str, rows: Sequence[ExplainedPart], queueing: Queueing, pauses: Pauses) -> str:
    """Say what belongs to a cause: the load of the queue, the period of pauses."""
    plural = "s" * (queueing["instances"] != 1)
    if cause == "instance":
        waiting = next(row for row in rows if row["cause"] == "pause")
        also = f"; {figure(waiting['tail_ms'])} ms are pauses" if waiting["tail_ms"] >= NAMED_MS else ""
        return f" ({queueing['instances']} instance{plural}, {queueing['utilization']:.0%} utilisation){also}"
    if cause == "batch_fill":
        return f" (queue delay {figure(queueing['queue_delay_ms'])} ms, mean batch {figure(queueing['batch_mean'])})"
    if cause == "batch_size":
        return f" (mean batch {figure(queueing['batch_mean'])}, at most {queueing['max_batch']})"
    if cause == "size_change":
        return f" (each change of the batch size costs {figure(queueing['size_change_ms'] or 0.0)} ms)"
    if cause == "pause" and pauses["count"]:
        period = "" if pauses["period_s"] is None else f", one each {figure(pauses['period_s'])} s"
        return f" ({pauses['count']} of {figure(pauses['median_ms'])} ms{period})"
    return ""
