"""A cold start (`--cold-start`): a server that is started for the run, under load from its first request on."""

from typing import Annotated, TypedDict


class Settling(TypedDict):
    """Latency by whole seconds of the measured interval, until it was as in their second half."""

    percentile: Annotated[str | None, "Percentile that is compared: the highest that the second half has."]
    first_second_ms: Annotated[float | None, "It in the first second (ms)."]
    last_ms: Annotated[float | None, "Its largest value in a second of the second half (ms)."]
    steady_after_s: Annotated[
        float | None,
        "Time until the first of three seconds in a row without failures and at most 1.1 times `last_ms` (s). Null too "
        "where the latency drifts from there on.",
    ]
    steady: Annotated[bool | None, "Whether it was steady when the run ended. Null: too little is known."]


class ColdStart(Settling):
    """The start of a server, and how it answered from its first request on."""

    load_s: Annotated[float | None, "From the start of the server's process until it said that it was ready (s)."]
    waited_s: Annotated[
        float | None, "From then until the load began (s): servemark prepared it. It is in no other figure."
    ]
    first_answer_ms: Annotated[float | None, "Latency of the request that was answered first (ms)."]
    cold_start_s: Annotated[float | None, "`load_s` and `steady_after_s` together (s): what `--slo cold-start` limits."]
