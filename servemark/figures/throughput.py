"""Rates of the measured interval."""

from servemark.figures.evidence import Evidence
from servemark.figures.figure import CLOSED_LOOP, Figure, summed
from servemark.figures.value import INFERENCES_PER_S, REQUESTS_PER_S, Value

NOT_BEGUN = "the run was cut short before its measured interval began"


def per_s(count: float, evidence: Evidence) -> Value:
    """Return a count per measured second."""
    return Value(count / evidence.measured_s) if evidence.measured_s else Value.unknown(NOT_BEGUN)


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
)
