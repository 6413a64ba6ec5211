"""Rates and failed requests of the measured interval."""

from collections.abc import Sequence

from servemark.figures.evidence import Evidence
from servemark.figures.figure import CLOSED_LOOP, NONE_SENT, Figure, Part, summed
from servemark.figures.value import COUNT, INFERENCES_PER_S, REQUESTS_PER_S, SHARE, Value

NOT_BEGUN = "the run was cut short before its measured interval began"


def per_s(count: float, evidence: Evidence) -> Value:
    """Return a count per measured second."""
    return Value(count / evidence.measured_s) if evidence.measured_s else Value.unknown(NOT_BEGUN)


def _errors(failed: float, requests: float) -> Value:
    return Value.ratio(failed, int(requests), NONE_SENT)


def _join_errors(_tag: str, parts: Sequence[Part]) -> Value:
    failed, answered = (sum(part.value(tag) or 0 for part in parts) for tag in ("errors.count", "requests.answered"))
    return _errors(failed, failed + answered)


FIGURES = (
    Figure(
        "throughput.requests",
        REQUESTS_PER_S,
        "Good answers that came in the interval.",
        lambda evidence: per_s(evidence.completed, evidence),
        better="higher",
        join=summed,
        live=True,
        short="throughput",
    ),
    Figure(
        "throughput.inferences",
        INFERENCES_PER_S,
        "The same in samples.",
        lambda evidence: per_s(evidence.completed * evidence.batch_size, evidence),
        better="higher",
        join=summed,
        live=True,
    ),
    Figure(
        "throughput.goodput",
        REQUESTS_PER_S,
        "Requests that were answered within the limit of the latency objective with the highest percentile. Without "
        "one: all that were answered.",
        lambda evidence: per_s(evidence.good, evidence),
        better="higher",
        join=summed,
        live=True,
        short="goodput",
        detail=True,
    ),
    Figure(
        "throughput.scheduled",
        REQUESTS_PER_S,
        "Open loop: arrivals that the seed drew.",
        lambda evidence: per_s(evidence.scheduled, evidence) if evidence.open_loop else Value.unknown(CLOSED_LOOP),
        join=summed,
        live=True,
        detail=True,
    ),
    Figure(
        "errors.count",
        COUNT,
        "Failed requests.",
        lambda evidence: Value(sum(evidence.errors.values())),
        better="lower",
        join=summed,
        live=True,
    ),
    Figure(
        "errors.share",
        SHARE,
        "Share of the requests that failed.",
        lambda evidence: _errors(sum(evidence.errors.values()), evidence.scheduled),
        better="lower",
        join=_join_errors,
        live=True,
        short="errors",
    ),
)
