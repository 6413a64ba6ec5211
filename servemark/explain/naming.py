"""The cause that a sentence names: a large part of the slowest requests' time that a change would take away."""

from collections.abc import Sequence
from dataclasses import dataclass

from servemark.explain.fixes import fixes_of
from servemark.explain.tail import CAUSES, Evidence, Parts, Row
from servemark.quantities import figure
from servemark.results.schema.explanation import Fix, Pauses, Queueing

NAMED_SHARE = 0.2
"""A cause is named from this share of the slowest requests' latency on."""
NAMED_MS = 0.5
ORDINARY_NETWORK_MS = 1.0
"""Time for a front end and a network that nobody asks about."""
ORDINARY_WAIT = 0.5
"""Queueing is named where the mean wait for an instance is this share of a mean service time: below the knee a tail of
waits is what random arrivals make."""
GAIN = 0.9
"""A setting is named where it is predicted to bring p99 down to this share."""
UNAVOIDABLE = {"model", "unexplained"}


@dataclass(frozen=True)
class Named:
    """A cause with its part of the tail (ms) and its changes; without a cause none stands out."""

    cause: str | None
    tail_ms: float = 0.0
    fixes: Sequence[Fix] = ()


def name(rows: Sequence[Row], evidence: Evidence, parts: Parts, p99_ms: float) -> Named:
    """Choose the largest cause that stands out. One of a setting must also have a change that is predicted to help."""
    tail_ms = sum(row.tail_ms for row in rows)
    avoidable = [
        (row.tail_ms - ORDINARY_NETWORK_MS * (row.cause == "network"), row)
        for row in rows
        if row.cause not in UNAVOIDABLE and not (row.cause == "instance" and _ordinary(evidence, parts))
    ]
    for amount, row in sorted(avoidable, key=lambda each: -each[0]):
        if amount < max(NAMED_SHARE * tail_ms, NAMED_MS):
            break
        fixes = fixes_of(row.cause, evidence, parts)
        predicted = fixes[0]["p99_ms"] if fixes else None
        if not (fixes and fixes[0]["settings"]) or (predicted is not None and predicted <= GAIN * p99_ms):
            return Named(row.cause, row.tail_ms, fixes)
    return Named(None)


def _ordinary(evidence: Evidence, parts: Parts) -> bool:
    return float(parts["instance"].mean()) < ORDINARY_WAIT * float(evidence.batches.service.mean())


def sentence(
    named: Named, rows: Sequence[Row], p50_ms: float, p99_ms: float, queueing: Queueing, pauses: Pauses
) -> str:
    """Say the cause with its figures, and the first change with its predicted gain."""
    tail_ms = sum(row.tail_ms for row in rows)
    busy = f"{queueing['utilization']:.0%} utilisation"
    start = f"p99 is {figure(p99_ms)} ms, p50 {figure(p50_ms)} ms"
    unknown = next(row for row in rows if row.cause == "unexplained")
    left = f"; {figure(unknown.tail_ms)} ms are not explained" if unknown.tail_ms > NAMED_SHARE * tail_ms else ""
    if named.cause is None:
        work = next(row for row in rows if row.cause == "model")
        return (
            f"Nothing stands out: {start}; of the slowest 1 % ({figure(tail_ms)} ms) the model alone computes "
            f"{figure(work.tail_ms)} ms, at {busy}{left}."
        )
    said = f"{start}: of the slowest 1 % ({figure(tail_ms)} ms), {figure(named.tail_ms)} ms are {CAUSES[named.cause]}"
    said += _more(named.cause, rows, queueing, pauses) + left
    if not named.fixes:
        return f"{said}."
    fix = named.fixes[0]
    if fix["p99_ms"] is None:
        return f"{said}. Try {fix['words']}."
    return f"{said}. Predicted with {fix['words']}: p99 {figure(fix['p99_ms'])} ms."


def _more(cause: str, rows: Sequence[Row], queueing: Queueing, pauses: Pauses) -> str:
    """Say what belongs to a cause: the load of the queue, the period of pauses."""
    plural = "s" * (queueing["instances"] != 1)
    if cause == "instance":
        waiting = next(row for row in rows if row.cause == "pause")
        also = f"; {figure(waiting.tail_ms)} ms are pauses" if waiting.tail_ms >= NAMED_MS else ""
        return f" ({queueing['instances']} instance{plural}, {queueing['utilization']:.0%} utilisation){also}"
    if cause == "batch_fill":
        return f" (queue delay {figure(queueing['queue_delay_ms'])} ms, mean batch {figure(queueing['batch_mean'])})"
    if cause == "batch_size":
        return f" (mean batch {figure(queueing['batch_mean'])}, at most {queueing['max_batch']})"
    if cause == "pause" and pauses["count"]:
        period = "" if pauses["period_s"] is None else f", one each {figure(pauses['period_s'])} s"
        return f" ({pauses['count']} of {figure(pauses['median_ms'])} ms{period})"
    return ""
