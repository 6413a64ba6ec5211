"""The explanation of a run as its result holds it, from what the run kept."""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from servemark.explain.naming import NAMED_MS, NAMED_SHARE_OF_TAIL, name, p50_ms, p99_ms, sentence
from servemark.explain.queue import Batches, Replayed, Setup, measured_service, replay
from servemark.explain.tail import WAY, Evidence, Parts, held_back, latency_of, parts_of, rows, tail_of
from servemark.explain.timeline import Flags, Machine, Sent, Served, Times
from servemark.quantities import figure
from servemark.results.schema.explanation import ExplainedPart, Explanation, Pauses, Queueing
from servemark.workload.tensor import NUMPY_DTYPES, Tensor

FEWEST = 100
"""Fewer requests have no slowest 1 %."""
NEVER_FILLED = "because the load ended before their batch was full"
NO_TRACE = "no trace of the server's: what lies between request and answer cannot be told apart"


def setup_of(config: Mapping[str, Any] | None, batch_size: int) -> Setup:
    """Read the queue of a Triton configuration, in requests of this many samples."""
    found = config or {}
    groups = found.get("instance_group") or [{}]
    instances = sum(max(int(group.get("count", 1)), 1) * max(len(group.get("gpus") or []), 1) for group in groups)
    batching = found.get("dynamic_batching")
    most = max(int(found.get("max_batch_size", 0)) // batch_size, 1)
    surplus = batch_size * (_bytes(found.get("output") or []) - _bytes(found.get("input") or []))
    if batching is None:
        return Setup(instances, answer_surplus=surplus, samples=batch_size)
    preferred = tuple(sorted({int(size) // batch_size for size in batching.get("preferred_batch_size") or []} - {0}))
    delay_ns = int(batching.get("max_queue_delay_microseconds", 0)) * 1000
    return Setup(instances, most, delay_ns, preferred, answer_surplus=surplus, samples=batch_size)


def _bytes(tensors: Sequence[Mapping[str, Any]]) -> int:
    """Return the bytes of a sample's tensors, as far as their shapes are fixed."""
    found = 0
    for each in tensors:
        dims = [int(dim) for dim in each.get("dims") or []]
        datatype = str(each.get("data_type", "")).removeprefix("TYPE_").replace("STRING", "BYTES")
        if datatype in NUMPY_DTYPES and min(dims, default=1) > 0:
            found += math.prod(dims) * Tensor("", datatype, ()).itemsize
    return found


def explanation(
    sent: Sent, served: Served | None, machine: Machine, setup: Setup, note: str = ""
) -> Explanation | None:
    """Explain the answered requests; None where they are too few."""
    chosen = sent.good & (sent.sent > 0)
    if served is not None:
        chosen &= (served.queued > 0) & (served.started >= served.queued) & (served.ended >= served.output_start)
        chosen &= served.output_start >= served.started
    if chosen.sum() < FEWEST:
        return None
    if served is None:
        return _untraced(sent.only(chosen), setup, note or NO_TRACE)
    ending = chosen.copy()
    ending[chosen] = _never_filled(served.only(chosen), setup)
    if ending.any():
        chosen &= ~ending
        words = f"left out: the last {ending.sum()}, {NEVER_FILLED}"
        note = note if words in note else "; ".join(filter(None, [note, words]))
    if chosen.sum() < FEWEST:
        return None
    evidence = Evidence(sent.only(chosen), served.only(chosen), machine, setup)
    parts = parts_of(evidence)
    found = rows(parts)
    queue, stopped = queueing(evidence), pauses(evidence)
    named = name(found, evidence, parts)
    return {
        **_common(found, parts, note),
        "sentence": sentence(named, found, latency_of(parts), queue, stopped),
        "cause": named.row["cause"] if named.row else None,
        "traced": True,
        "queueing": queue,
        "pauses": stopped if len(machine.at) else None,
        "fixes": list(named.fixes),
    }


def _never_filled(served: Served, setup: Setup) -> Flags:
    """Requests of batches that waited for all of the queue delay because the load had ended."""
    batches = Batches.recognised(served)
    waited = (setup.delay_ns > 0) & (batches.start - batches.first >= setup.delay_ns) & (batches.size < setup.wanted)
    found: Flags = (waited & (batches.start > served.queued.max()))[batches.of]
    return found


def _common(found: list[ExplainedPart], parts: Parts, note: str) -> Explanation:
    latency = latency_of(parts)
    return {
        "sentence": "",
        "cause": None,
        "traced": False,
        "note": note,
        "requests": len(latency),
        "slowest": len(tail_of(latency)[0]),
        "p50_ms": p50_ms(latency),
        "p99_ms": p99_ms(latency),
        "excess_ms": sum(row["excess_ms"] for row in found),
        "parts": found,
        "queueing": None,
        "pauses": None,
        "fixes": [],
        "tried": None,
    }


def _untraced(sent: Sent, setup: Setup, note: str) -> Explanation:
    """Tell what the load generator alone knows: lateness, connections, and the rest as one part."""
    behind = held_back(sent, setup)
    parts = {
        "in_flight": behind,
        "schedule": sent.begun - sent.due - behind,
        "connection": (sent.sent - sent.begun).astype(float),
        WAY: (sent.done - sent.sent).astype(float),
    }
    found = rows(parts)
    common = _common(found, parts, note)
    tail_ms = sum(row["tail_ms"] for row in found)
    ours = max(found[:-1], key=lambda row: row["tail_ms"])
    start = f"p99 is {figure(common['p99_ms'])} ms, p50 {figure(common['p50_ms'])} ms"
    large = ours["tail_ms"] >= max(NAMED_SHARE_OF_TAIL * tail_ms, NAMED_MS)
    row = ours if large else found[-1]
    said = f"{start}: of the slowest 1 % ({figure(tail_ms)} ms), {figure(row['tail_ms'])} ms are {row['words']}."
    return {**common, "sentence": said, "cause": ours["cause"] if large else None}


def queueing(evidence: Evidence) -> Queueing:
    """Hold the measured waits against replays: with the services as measured, and with the usual ones."""
    served, setup, batches = evidence.served, evidence.setup, evidence.batches
    usual = functools.cache(batches.usual.at)
    replayed = replay(served.queued, setup, measured_service(batches), endless=True)
    undisturbed = replay(served.queued, setup, lambda _, size: usual(size) + batches.handover, endless=True)
    passed = max(int(batches.end.max() - batches.start.min()), 1)
    change = evidence.cost_of_change
    return {
        "instances": setup.instances,
        "max_batch": setup.max_batch,
        "queue_delay_ms": setup.delay_ns / 1e6,
        "utilization": float((batches.service + batches.handover).sum()) / (passed * setup.instances),
        "batch_mean": float(batches.size.mean()),
        "execution_ms": float(batches.service.mean()) / 1e6,
        "size_change_ms": None if change is None else change / 1e6,
        "wait_p99_ms": p99_ms((served.started - served.queued).astype(float)),
        "replayed_wait_p99_ms": _wait_ms(replayed, served.queued),
        "undisturbed_wait_p99_ms": _wait_ms(undisturbed, served.queued),
    }


def _wait_ms(replayed: Replayed, queued: Times) -> float:
    return p99_ms((replayed.start - queued).astype(float))


def pauses(evidence: Evidence) -> Pauses:
    """Count the server's pauses."""
    starts, ends = evidence.pauses
    return {
        "count": len(starts),
        "median_ms": float(np.median(ends - starts)) / 1e6 if len(starts) else None,
        "period_s": float(np.median(np.diff(starts))) / 1e9 if len(starts) > 1 else None,
    }
