"""The load of a run as it was made: its length, its trace, and its warm-up."""

from typing import Annotated, NotRequired, TypedDict


class TraceLoad(TypedDict):
    """A trace of arrival times."""

    sha256: Annotated[str, "Digest of the file: equal for equal traces."]
    arrivals: Annotated[int, "Arrivals in the trace."]
    samples: Annotated[bool, "Whether the trace names the sample of each arrival."]
    first: Annotated[str | None, "When the first arrival came (ISO 8601). Null: times count from 0."]


class WarmUp(TypedDict):
    """End of a warm-up that ends by itself."""

    method: Annotated[str, "Rule that finds the end of the initial transient: `MSER` (White 1997)."]
    longest_s: Annotated[float, "Its bound (s)."]
    steady: Annotated[bool | None, "Whether the latency was steady when it ended. Null: too few answers to tell."]
    steady_from_s: Annotated[float | None, "After how many seconds the latency was steady."]
    reason: NotRequired[Annotated[str, "Why it went on to its bound."]]


class Scenario(TypedDict):
    """The load as it was made, beside what `request.load` asks for."""

    gamma_cv: Annotated[float | None, "Standard deviation of gamma gaps over their mean. Null: other gaps."]
    duration_s: Annotated[
        float, "Length of the measured interval (s): a trace has its own, a search prolongs its runs."
    ]
    measured_s: Annotated[float | None, "Measured seconds. A closed loop goes on until each connection has an answer."]
    warmup_s: Annotated[
        float | None, "Seconds before the measured interval. Null where a run was cut short in a warm-up of `auto`."
    ]
    warmup: NotRequired[Annotated[WarmUp, "How a warm-up of `auto` ended."]]
    trace: Annotated[TraceLoad | None, "The trace that was replayed. Null: another load."]
