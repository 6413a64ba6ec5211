"""Changes that would make the tail shorter, and the p99 that a replay predicts for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from servemark.explain.replay import measured_service, replay
from servemark.explain.tail import Evidence, Parts, latency_of
from servemark.explain.timeline import Floats, Setup
from servemark.results.schema.explanation import Fix

REPLAYED = "a replay of the measured arrivals and service times"
IN_PROPORTION = "; no other batch size was executed, so the time of smaller ones is taken in proportion"
FEW_CORES = "more instances share these cores: a replay predicts no shorter p99"
TAKEN_OFF = "the measured latencies without this part"
AT_MOST = "the measured latencies without this part: the least that p99 can become"

Percentiles = tuple[float, float]
"""p50 and p99 (ms)."""


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
    found = list(_settings(cause, evidence, latency) if cause in _SETUPS else _elsewhere(cause, latency, parts))
    found.sort(key=lambda fix: (fix["p50_ms"] or 0.0) + (fix["p99_ms"] or 0.0))
    if cause == "instance" and (found[0]["p99_ms"] or 0.0) >= p99_ms(latency):
        words = "more cores, a faster engine or precision, or a lower rate"
        return [_fix(words, FEW_CORES)]
    return found


def _settings(cause: str, evidence: Evidence, latency: Floats) -> Iterator[Fix]:
    replays = Replays(evidence, latency)
    basis = REPLAYED + IN_PROPORTION * (cause == "batch_size" and evidence.batches.usual.proportional)
    for words, settings, setup in _SETUPS[cause](evidence):
        yield _fix(words, basis, replays.under(setup), settings)


def _fix(words: str, basis: str, found: Percentiles | None = None, settings: dict[str, int] | None = None) -> Fix:
    """A change with the percentiles that are predicted, where any are."""
    p50, p99 = found or (None, None)
    return {"words": words, "settings": settings or {}, "p50_ms": p50, "p99_ms": p99, "basis": basis}


Changes = Iterator[tuple[str, dict[str, int], Setup]]
"""In words, as settings of the model, and as the queue's."""


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
        yield f"{words}: max_batch_size {size}", {"max_requests": size}, changed
        size //= 2


_SETUPS = {"instance": _more_instances, "batch_fill": _shorter_delay, "batch_size": _smaller_batches}

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


def _elsewhere(cause: str, latency: Floats, parts: Parts) -> Iterator[Fix]:
    if cause == "slower":
        yield _fix(
            "fewer threads for each instance (intra_op_thread_count)", "no measured service time at fewer threads"
        )
    elif cause in _WORDS:
        words, basis = _WORDS[cause]
        less = latency - parts[cause]
        yield _fix(words, basis, (p50_ms(less), p99_ms(less)))
