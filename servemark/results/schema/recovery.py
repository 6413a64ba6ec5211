"""Commands that were run beside the load (`--at`), and how the latency recovered from each."""

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
