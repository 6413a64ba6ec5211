"""The document of a tuning, `tuning.json`."""

from typing import Annotated, Any, Literal, TypedDict

from servemark.results.schema.header import KIND, CampaignHeader
from servemark.results.schema.run import REQUEST
from servemark.results.schema.search import MaxRateSearch
from servemark.stats.ratios import RatioFigures


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


Outcome = Literal["better", "same", "missed", "undecided"]
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
    outcome: Annotated[Outcome, "How it ended. `missed`: no candidate meets the objective."]
    reason: Annotated[str, "The same in words."]
    lacked: Annotated[Lacked | None, "What an undecided tuning lacked. `machine`: other work took it."]
    rates_requests_per_s: Annotated[RatesBeforeAfter, "Highest rates before and after."]
    rounds: Annotated[int, "Interleaved rounds."]
    ratio: Annotated[RatioFigures | None, "The winner's highest rate to the present one's."]
    candidates: Annotated[list[CandidateFigures], "Every candidate that was tried."]
    not_tried: Annotated[list[str], "What there was no time for."]
    written: Annotated[str | None, "The file that was written."]
