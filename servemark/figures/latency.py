"""Latencies, service times and schedule delays, with the bounds of the tail.

Latency counts from the schedule (G. Tene, "How NOT to Measure Latency", on coordinated omission).
"""

from collections.abc import Sequence

from servemark.figures.evidence import Evidence
from servemark.figures.figure import CLOSED_LOOP, NONE_SENT, Distribution, Figure, mean, merged, percentile_of, summed
from servemark.figures.value import COUNT, MS, SHARE, Value
from servemark.quantities import figure, text_of
from servemark.stats.histogram import Histogram
from servemark.stats.percentiles import PERCENTILES, TooLittle

LATE_MS, LATE_SHARE = 0.2, 0.02
"""By more than this, and this share of the service time, late sending may not move a percentile that is stated."""


def moved_by_late_sending(evidence: Evidence, percentile: float) -> str | None:
    """Return why a percentile of an open loop's latency is withheld: the generator's own lateness moved it.

    A server whose answers are waited for delays sending too (--max-in-flight): that is the server's latency.
    """
    latency, service = evidence.latency, evidence.service_time
    known = service.supports(percentile) and latency.supports(percentile)
    if not (evidence.open_loop and known) or evidence.waited_delay.count:
        return None
    moved_ms = latency.percentile(percentile) - service.percentile(percentile)
    if moved_ms <= LATE_MS + LATE_SHARE * service.percentile(percentile):
        return None
    return f"late sending moved it by {figure(moved_ms)} ms: stop other work on the generator's machine"


LATENCY = Distribution(
    "latency",
    "From the schedule to the answer.",
    lambda evidence: evidence.latency,
    live=True,
    windowed=True,
    withheld=moved_by_late_sending,
    metric="servemark_request_latency_seconds",
)
SERVICE_TIME = Distribution(
    "service_time",
    "From the sending to the answer.",
    lambda evidence: evidence.service_time,
    live=True,
    metric="servemark_request_service_time_seconds",
)
SCHEDULE_DELAY = Distribution(
    "schedule_delay",
    "From the schedule to the sending.",
    lambda evidence: evidence.schedule_delay if evidence.open_loop else CLOSED_LOOP,
    live=True,
    metric="servemark_schedule_delay_seconds",
)


def _answered(percentile: float) -> Figure:
    key = f"p{text_of(percentile)}"
    return Figure(
        f"answered_latency.{key}",
        MS,
        f"Percentile {text_of(percentile)} of the answered requests alone.",
        lambda evidence: percentile_of(evidence.latency.answered(), percentile, None),
        better="lower",
        join=lambda _, parts: percentile_of(merged("latency", parts).answered(), percentile, None),
        percentile=percentile,
        detail=True,
    )


def _bound(percentile: float) -> Figure:
    key = f"p{text_of(percentile)}"
    return Figure(
        f"tail_bound.{key}",
        MS,
        f"The latency that the percentile {text_of(percentile)} does not exceed with 99 % confidence, from how much "
        "the run's windows differ.",
        lambda evidence: bound_of(evidence.latency, percentile, evidence.windows),
        better="lower",
        join=lambda _, parts: bound_of(merged("latency", parts), percentile, ()),
        percentile=percentile,
        detail=True,
    )


def bound_of(histogram: Histogram, percentile: float, windows: Sequence[Histogram]) -> Value:
    """Compute what a percentile does not exceed with 99 % confidence."""
    found = histogram.ranks(percentile, windows)
    n = histogram.total
    if isinstance(found, TooLittle):
        return Value.unknown(found.reason, n)
    if found.bound > histogram.count:
        return Value.unknown(histogram.among_failed(), n)
    return Value(histogram.at_rank(found.bound), n=n)


def _late(evidence: Evidence) -> Value:
    if not evidence.open_loop:
        return Value.unknown(CLOSED_LOOP)
    return Value.ratio(evidence.late, evidence.schedule_delay.count, NONE_SENT)


FIGURES = (
    LATENCY,
    *map(_answered, PERCENTILES),
    *map(_bound, PERCENTILES),
    SERVICE_TIME,
    SCHEDULE_DELAY,
    Figure(
        "schedule_delay.late_share",
        SHARE,
        "Share of requests that were sent more than 1 ms late.",
        _late,
        better="lower",
        join=mean,
        live=True,
        detail=True,
    ),
    Figure(
        "requests.answered",
        COUNT,
        "Requests of the measured interval that were answered well.",
        lambda evidence: Value(evidence.latency.count),
        join=summed,
        live=True,
    ),
)
