"""Latency that settles: after a cold start (`--cold-start`), and after a command beside the load (`--at`)."""

from typing import Annotated, TypedDict


class Recovery(TypedDict):
    """Latency before and after a command, by seconds of the measured interval."""

    percentile: Annotated[str | None, "Percentile that is compared: the highest that each second before it has."]
    before_ms: Annotated[float | None, "Its largest value in a second before the command (ms)."]
    worst_ms: Annotated[float | None, "Its largest value until the latency had recovered (ms)."]
    errors: Annotated[int, "Failed requests that were scheduled until then."]
    recovery_s: Annotated[
        float | None,
        "Time until the first of three seconds in a row without failures and at most 1.1 times `before_ms` (s).",
    ]
    recovered: Annotated[bool | None, "Whether it had when the run ended. Null: too little is known before it."]


class StartedCommand(TypedDict):
    """A command that was started beside the load."""

    command: Annotated[str, "The command."]
    at_s: Annotated[float, "When it was started, from the start of the measured interval (s)."]
    exit_code: Annotated[int | None, "Its exit code. Null: it had not ended when the run had, and was ended."]
    said: Annotated[str, "The last of what it printed."]


class CommandRun(Recovery, StartedCommand):
    """A command that was run beside the load, and the recovery from it."""


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
