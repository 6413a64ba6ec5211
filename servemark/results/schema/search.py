"""Searches: for the highest rate within the objectives, a throughput-latency curve, and a tuning, `tuning.json`."""

from typing import Annotated, Any, Literal, TypedDict

from servemark.results.schema.details import ObjectiveStatus
from servemark.results.schema.header import KIND, REQUEST, CampaignHeader
from servemark.stats.ratios import RatioFigures

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


class Layout(TypedDict):
    """Instances and threads."""

    instances: Annotated[int, "Instances of the model."]
    threads: Annotated[int, "Threads of each instance. 0 leaves the number to the engine."]


class CandidateSettings(Layout):
    """Settings of a model's configuration that a tuning changes."""

    max_batch: Annotated[int, "Largest batch that the server makes (samples)."]
    queue_delay_us: Annotated[int | None, "How long a request waits for others (µs). Null: no dynamic batching."]


class WordedCandidate(TypedDict):
    """A configuration in words."""

    candidate: Annotated[CandidateSettings, "Its settings."]
    text: Annotated[str, "Its settings in words."]


class NamedCandidate(WordedCandidate):
    """A configuration with its file."""

    config: Annotated[str, "The whole config.pbtxt."]


class CandidateFigures(WordedCandidate):
    """Figures of one candidate, as far as they are known."""

    screens_requests_per_s: Annotated[list[float], "Throughput of each of its screening runs (requests/s)."]
    failure: Annotated[str | None, "Why it cannot be used. Null where it can."]
    max_rate: Annotated[MaxRateSearch | None, "Search for its highest rate. Null: none was made."]
    latency_ms: Annotated[float | None, "Latency at its highest rate, at the objective's percentile (ms)."]
    rounds_requests_per_s: Annotated[list[float], "Highest rate in each interleaved round (requests/s)."]
    generator_limited: Annotated[list[str], "Stages in which the generator was the limit."]


class Screens(TypedDict):
    """Durations of a screening run."""

    warmed_s: Annotated[float, "How long a loaded model answers first (s)."]
    warmup_s: Annotated[float, "Warm-up of each screening run (s)."]
    duration_s: Annotated[float, "Measured seconds of each."]


class SearchSpace(TypedDict):
    """The values that each setting may take."""

    present: Annotated[CandidateSettings, "The configuration that the tuning began with."]
    layouts: Annotated[list[Layout], "Instances and threads, other than the present ones."]
    batches: Annotated[list[int], "Largest batches (samples)."]
    delays_us: Annotated[list[int], "Queue delays (µs)."]


class RatesBeforeAfter(TypedDict):
    """Highest rates of the present configuration and of the winner."""

    before: Annotated[float | None, "Of the present configuration (requests/s)."]
    after: Annotated[float | None, "Of the winner (requests/s). Null without one."]


TuningOutcome = Literal["better", "same", "missed", "undecided"]
Lacked = Literal["time", "machine", "generator", "server"]


class TuningDocument(CampaignHeader):
    """The document of a tuning."""

    kind: Annotated[Literal["tuning"], KIND]
    request: Annotated[dict[str, Any], REQUEST]
    seed: Annotated[int, "Seed of schedule and inputs."]
    workload: Annotated[str, "Name of the workload."]
    engine: Annotated[str, "Engine."]
    device: Annotated[str, "Where the configuration puts its instances."]
    precision: Annotated[str, "Precision."]
    batch_size: Annotated[int, "Samples in a request."]
    budget_s: Annotated[float, "Time that was allowed (s)."]
    screens: Annotated[Screens, "How screening runs are made."]
    space: Annotated[SearchSpace, "The values that each setting may take."]
    present: Annotated[NamedCandidate, "The configuration that the tuning began with."]
    winner: Annotated[NamedCandidate | None, "The better configuration. Null: none was found."]
    outcome: Annotated[TuningOutcome, "How it ended. `missed`: no candidate meets the objective."]
    reason: Annotated[str, "The same in words."]
    lacked: Annotated[Lacked | None, "What an undecided tuning lacked. `machine`: other work took it."]
    rates_requests_per_s: Annotated[RatesBeforeAfter, "Highest rates before and after."]
    rounds: Annotated[int, "Interleaved rounds."]
    ratio: Annotated[RatioFigures | None, "The winner's highest rate to the present one's."]
    candidates: Annotated[list[CandidateFigures], "Every candidate that was tried."]
    not_tried: Annotated[list[str], "What there was no time for."]
    written: Annotated[str | None, "The file that was written."]
