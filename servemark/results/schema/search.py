"""Searches over the rate: the highest rate within the objectives, and a throughput-latency curve."""

from typing import Annotated, Literal, TypedDict

from servemark.results.schema.verdict import ObjectiveStatus

RateLimit = Literal["server", "generator", "other work", "unsteady", "range", "broken", "runs", "interrupted"]


class RatePoint(TypedDict):
    """One run of a search for the highest rate."""

    rate: Annotated[float, "Arrivals per second."]
    valid: Annotated[bool, "Whether every constraint holds."]
    objective: Annotated[ObjectiveStatus, "Whether the objectives were met."]
    met: Annotated[bool, "Whether the rate was met: the objectives are, and nothing but other work disturbed the run."]
    bottleneck: Annotated[RateLimit | None, "What kept the rate from being met."]
    failed: Annotated[list[str], "Constraints that do not hold."]
    latency_ms: Annotated[float | None, "Latency at the objectives' highest percentile (ms)."]
    over: Annotated[int | None, "Requests over the latency's objective that is nearest to be missed."]
    requests: Annotated[int, "Requests that were judged by it."]
    directory: Annotated[str | None, "Directory of the run."]


class TriedRate(TypedDict):
    """A rate that a search tried."""

    rate: Annotated[float, "Arrivals per second."]
    runs: Annotated[int, "Runs at this rate."]
    met: Annotated[int, "How many of them met it."]


class MaxRateSearch(TypedDict):
    """A search for the highest rate that meets the objectives."""

    rate: Annotated[float | None, "The rate found (requests/s). A lower bound unless `bottleneck` is `server`."]
    ci95: Annotated[list[float | None] | None, "95 % interval of the rate. Its end is null for a lower bound."]
    confirmed: Annotated[bool, "Whether it is the server's, and known to 5 % at least."]
    above: Annotated[float | None, "Lowest rate beyond it that was not met (requests/s)."]
    bottleneck: Annotated[
        RateLimit,
        "What bounds the rate. `range`: the highest rate asked for. `broken`: no other rate would do. `runs`: they "
        "were used up before any was met, or missed.",
    ]
    reason: Annotated[str, "The same in words."]
    rates: Annotated[list[TriedRate], "The rates that were tried, ascending."]
    points: Annotated[list[RatePoint], "The runs in the order in which they were made."]


class CurvePoint(TypedDict):
    """One rate of a throughput-latency curve. Of repeats the median."""

    rate: Annotated[float, "Arrivals per second that were asked for."]
    runs: Annotated[int, "Runs at this rate."]
    requests_per_s: Annotated[float, "Good answers per second."]
    completed_share: Annotated[float, "Share of the scheduled requests that were completed."]
    mean_ms: Annotated[float | None, "Mean latency (ms)."]
    p50_ms: Annotated[float | None, "Median latency (ms)."]
    p90_ms: Annotated[float | None, "90th percentile of the latency (ms)."]
    p99_ms: Annotated[float | None, "99th percentile of the latency (ms)."]
    valid: Annotated[bool, "Whether every run is valid."]
    objective: Annotated[ObjectiveStatus | None, "The worst of its runs'. Null: there is no objective."]


class Curve(TypedDict):
    """The throughput-latency curve of a range of rates."""

    definition: Annotated[str, "What the knee is."]
    points: Annotated[list[CurvePoint], "The rates, ascending."]
    knee: Annotated[float | None, "Rate of the knee (requests/s)."]
    knee_reason: Annotated[str, "Why the knee is there, or why there is none."]
