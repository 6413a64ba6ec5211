"""Transients of a run as tables: the recovery from each command, and a cold start."""

from collections.abc import Sequence
from typing import Any

from servemark.quantities import figure
from servemark.results.schema.header import figure_of, reason_of
from servemark.results.schema.run import Result
from servemark.views.blocks import Block, Lines, Routine, Table
from servemark.views.wording import cells

_PARTS = ("load_s", "first_answer_ms", "steady_after_s", "cold_start_s")


def commands(result: Result) -> list[Block]:
    """The commands that were run beside the load, and the recovery from each."""
    head = ["at s", "command", "exit code", "percentile", "before ms", "at worst ms", "failed", "recovered after s"]
    rows = [
        [
            *(f"{each['at_s']:.1f}", each["command"], "-" if each["exit_code"] is None else str(each["exit_code"])),
            *(each["percentile"] or "-", *cells(each, ("before_ms", "worst_ms")), f"{each['errors']:,}"),
            "not by the end" if each["recovered"] is False else figure(each["recovery_s"]),
        ]
        for each in result.get("commands", [])
    ]
    reasons = [
        f"{each['command']}: {reason}"
        for each in result.get("commands", [])
        if (reason := reason_of(each, "recovery_s")) is not None
    ]
    said = [f"{each['command']} said: {each['said']}" for each in result.get("commands", []) if each["exit_code"]]
    return [Table(head, rows), Lines([*reasons, *said])] if rows else []


def cold_start(result: Result) -> list[Block]:
    """The parts of a cold start, and the reason where one is not known."""
    found = result.get("cold_start")
    if found is None:
        return []
    which = found["percentile"] or "latency"
    values = {
        "load s": found["load_s"],
        "first answer ms": found["first_answer_ms"],
        f"first {which} ms": found["first_second_ms"],
        f"last {which} ms": found["last_ms"],
        "steady after s": found["steady_after_s"],
        "cold start s": found["cold_start_s"],
    }
    lines = [f"{key}: {reason}" for key in _PARTS[:-1] if (reason := reason_of(found, key)) is not None]
    if found["waited_s"] is not None:
        lines.append(Routine(f"the server was ready for {figure(found['waited_s'])} s before the load began"))
    return [Table([*values], [[figure(value) for value in values.values()]]), Lines(lines)]


def cold_starts(results: Sequence[Result]) -> list[Block]:
    """The parts of the cold start of each of several runs."""
    rows = [
        [str(number), *map(figure, cold_start_cells(result).values())]
        for number, result in enumerate(results, 1)
        if "cold_start" in result
    ]
    return [Table(["run", "load s", "first answer ms", "steady after s", "cold start s"], rows)] if rows else []


def cold_start_cells(result: Result) -> dict[str, Any]:
    """The parts of a cold start for a row of a spreadsheet; none of another run."""
    found = result.get("cold_start")
    names = {key: f"cold_start_{key.removeprefix('cold_start_')}" for key in _PARTS}
    return {name: found and figure_of(found, key) for key, name in names.items()}
