"""One run of an engine in a round: its figures, whether it counts, and what a server of its own took."""

import math
from dataclasses import dataclass
from pathlib import Path

from servemark.documents.load import ClosedLoop, ConstantRate
from servemark.documents.saved_load import load_of
from servemark.errors import ExitCode
from servemark.figures.registry import value_of
from servemark.results import directory as results
from servemark.results.schema.comparison import ComparisonTurn
from servemark.results.schema.run import Result
from servemark.results.verdict import About, Kind, about, exit_code_of, failed_constraints
from servemark.stats.histogram import Histogram
from servemark.stats.trend import RELEVANT, max_over_min

COMPARISON_FILE = "comparison.json"
SPARE = 1.1
"""Runs of a --duration that is advised may be slower."""


@dataclass(frozen=True)
class Footprint:
    """Start-up time of a server, and its memory at the end of a turn (PSS of all its processes; None: not known)."""

    startup_s: float
    memory_bytes: int | None


@dataclass(frozen=True)
class Made:
    """A run that was made in a round, counted from 1: its directory, and the footprint of a server of its own."""

    round: int
    label: str
    directory: str
    footprint: Footprint | None = None


@dataclass(frozen=True, kw_only=True)
class Turn(Made):
    """The same with its result and its latencies."""

    result: Result
    latency: Histogram

    @classmethod
    def read(cls, made: Made, folder: Path) -> "Turn":
        """Read the result of a run that was made in a folder. Raises ResultError."""
        directory = folder / made.directory
        result = results.read_run(directory)
        return cls(**vars(made), result=result, latency=results.read_latency(directory, result))

    def to_dict(self) -> ComparisonTurn:
        """As comparison.json lists it."""
        result, wrong = self.result, unmet(self.result)
        found: ComparisonTurn = {
            "round": self.round,
            "label": self.label,
            "directory": self.directory,
            "seed": result["seed"],
            "partial": result["partial"],
            "valid": not wrong,
            "failed": wrong,
            "objective": result["verdict"]["objective"],
            "unsteady": unsteady(result),
            "disturbed": disturbed(result),
            "p50_ms": value_of(result, "latency.p50"),
            "inferences_per_s": throughput(result),
        }
        if self.footprint is not None:
            found["startup_s"], found["memory_bytes"] = self.footprint.startup_s, self.footprint.memory_bytes
        return found


def throughput(result: Result) -> float:
    """Inferences/s of a run; 0 where it measured nothing."""
    return value_of(result, "throughput.inferences") or 0.0


def measured_s(result: Result) -> float:
    """Measured seconds of a run; as many as were asked for where it does not say."""
    scenario = result["scenario"]
    return scenario["measured_s"] or scenario["duration_s"]


def longer_runs(needed: int, count: int, length_s: float) -> str:
    """Return the --duration that gives `needed` requests, with a tenth to spare, if `length_s` gave `count`."""
    return f"--duration {math.ceil(SPARE * length_s * needed / count)}" if count else "nothing was answered"


def unmet(result: Result) -> list[str]:
    """Return the constraints that keep a run from counting as a round; if there are none, it counts.

    `other_load` is not one of them, because other work disturbs all engines alike over interleaved rounds, and the
    interval over the rounds includes it. The report names the most disturbed engine beside the figures.
    """
    failed = failed_constraints(result["verdict"])
    return [name for name in failed if name not in about(failed, About.MACHINE)]


def disturbed(result: Result) -> bool:
    """Return True if other work took cores from a run."""
    return bool(about(failed_constraints(result["verdict"]), About.MACHINE))


def unsteady(result: Result) -> bool:
    """Return True if a run counts although its windows scatter: they lie more than 10 % apart, and do not drift."""
    load = load_of(result)
    closed = isinstance(load, ClosedLoop)
    found = [window["requests_per_s"] if closed else window["p50_ms"] for window in result["windows"]]
    values = [value for value in found if value is not None]
    failed = Kind.STEADY_STATE in failed_constraints(result["verdict"])
    level = isinstance(load, ClosedLoop | ConstantRate)
    return level and not failed and bool(values) and max_over_min(values) > RELEVANT


def exit_code(result: Result) -> ExitCode:
    """Return a round's contribution to the exit code of its comparison."""
    return exit_code_of(not unmet(result), result["verdict"]["objective"])
