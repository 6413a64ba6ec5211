"""The cause that a sentence names: a large part of the requests' time that a change would take away."""

from collections.abc import Sequence
from dataclasses import dataclass

from servemark.explain.fixes import fixes_of, p50_ms, p99_ms
from servemark.explain.tail import LATE_NS, SLOW, Evidence, Parts, latency_of
from servemark.explain.timeline import Floats
from servemark.quantities import figure
from servemark.results.schema.explanation import ExplainedPart, Fix, Pauses, Queueing

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
