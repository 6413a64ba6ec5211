"""The load of a run as it was made: its kind, rates, stages or trace, and its warm-up."""

from typing import Annotated, Literal, NotRequired, TypedDict


class StageLoad(TypedDict):
    """One stage of a load in stages."""

    duration_s: Annotated[float, "Length of the stage (s)."]
    rate: Annotated[float, "Arrivals per second; of a ramp at its start."]
    to_rate: NotRequired[Annotated[float, "Ramp: arrivals per second at its end. Missing: it is not a ramp."]]


class TraceLoad(TypedDict):
    """A trace of arrival times."""

    file: Annotated[str, "Name of the file."]
    sha256: Annotated[str, "Digest of the file: equal for equal traces."]
    arrivals: Annotated[int, "Arrivals in the trace."]
    samples: Annotated[bool, "Whether the trace names the sample of each arrival."]
    first: NotRequired[Annotated[str | None, "When the first arrival came (ISO 8601). Null: times count from 0."]]
    speed: NotRequired[Annotated[float, "How many times as fast as recorded it was played."]]


class WarmUp(TypedDict):
    """End of a warm-up that ends by itself."""

    method: Annotated[str, "Rule that finds the end of the initial transient: `MSER` (White 1997)."]
    longest_s: Annotated[float, "Its bound (s)."]
    steady: Annotated[bool | None, "Whether the latency was steady when it ended. Null: too few answers to tell."]
    steady_from_s: Annotated[float | None, "After how many seconds the latency was steady."]
    reason: NotRequired[Annotated[str, "Why it went on to its bound."]]


Mode = Literal["closed", "open", "stages", "trace", "mix", "max-rate"]


class Scenario(TypedDict):
    """The load. What a scenario does not have is null without a reason."""

    mode: Annotated[Mode, "Closed loop, or a kind of open loop."]
    distribution: Annotated[str | None, "Distribution of the gaps between arrivals: poisson, constant or gamma."]
    gamma_cv: Annotated[float | None, "Standard deviation of gamma gaps over their mean."]
    requested_rate: Annotated[float | None, "Arrivals per second that were asked for."]
    concurrency: Annotated[int | None, "Requests that a closed loop keeps in flight."]
    duration_s: Annotated[float, "Measured seconds that were asked for."]
    measured_s: Annotated[float | None, "Measured seconds. A closed loop goes on until each connection has an answer."]
    warmup_s: Annotated[
        float | None, "Seconds before the measured interval. Null where a run was cut short in a warm-up of `auto`."
    ]
    warmup: NotRequired[Annotated[WarmUp, "How a warm-up of `auto` ended."]]
    stages: Annotated[list[StageLoad] | None, "The stages of a load in stages."]
    trace: Annotated[TraceLoad | None, "The trace that was replayed."]
