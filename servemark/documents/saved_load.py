"""The load of a saved run: read from its request, named for a reader, and identified."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec

from servemark.documents import texts
from servemark.documents.load import ClosedLoop, ConstantRate, Distribution, Load, MaxRate, SingleLoad, Stage, Stages
from servemark.errors import OptionError, ResultError
from servemark.figures.registry import value_of
from servemark.quantities import figure
from servemark.results.schema.run import Result, RunHeader, Scenario

SHOWN_STAGES = 6
_ASKED_BUT_NO_LOAD = {"warmup", "file", "gamma_cv"}
"""The warm-up comes before the interval, a trace is known by its digest, and the scenario has the cv that was taken."""
_WHOLE = "name a whole result directory"
_RESOLVED = ("duration_s", "gamma_cv", "trace")


def load_of(result: RunHeader) -> SingleLoad:
    """Return the load of a run, as its request asks for it; a search has that of the run that stands for it.

    Raises ResultError.
    """
    return read_single_load(result["request"].get("load"), result["resolved"].get("rate"))


def read_single_load(asked: dict[str, Any] | None, found_rate: float | None = None) -> SingleLoad:
    """Read the load of a request; that of a search is its run's at the rate that was found. Raises ResultError."""
    try:
        load: Load = msgspec.convert(asked, Load)
    except (msgspec.ValidationError, OptionError) as error:
        raise ResultError(f"request.load is damaged: {error}", fix=_WHOLE) from error
    if not isinstance(load, MaxRate):
        return load
    if found_rate is None:
        raise ResultError("the result of a search lacks resolved.rate", fix=_WHOLE)
    return load.at(found_rate)


def rate_of(result: RunHeader) -> float | None:
    """Return the one rate of a run's open loop; None for a closed loop, stages or a trace. Raises ResultError."""
    load = load_of(result)
    return load.rate if isinstance(load, ConstantRate) else None


def load_key(result: RunHeader) -> str:
    """Return a text that is equal for equal loads, whose runs may be compared as repeats. Raises ResultError."""
    asked = msgspec.to_builtins(load_of(result))
    key = {name: value for name, value in asked.items() if name not in _ASKED_BUT_NO_LOAD}
    key |= {name: dict(result["scenario"])[name] for name in _RESOLVED}
    key |= {"mix": result["resolved"].get("mix"), "search": "max_rate" in result, "cold": "cold_start" in result}
    return json.dumps(key, sort_keys=True)


def described(result: RunHeader) -> str:
    """Return a short label of a run's load. Raises ResultError."""
    return describe(load_of(result), result["scenario"])


def describe(load: SingleLoad, scenario: Scenario, most_stages: int = SHOWN_STAGES) -> str:
    """Return a short label of a load: "400/s poisson", "concurrency 8", "10 s at 100/s, 10 s at 400/s constant"."""
    match load:
        case ClosedLoop():
            pause = texts.think_time_text(load.think_time_s).replace(":", " to ")
            return f"concurrency {load.concurrency}" + (f", think time {pause} s" if load.think_time_s[1] else "")
        case Stages():
            more = f", {len(load.stages) - most_stages} more" if len(load.stages) > most_stages else ""
            return f"{', '.join(map(_stage, load.stages[:most_stages]))}{more} {_gaps(load, scenario)}"
        case ConstantRate():
            return f"{load.rate:,g}/s {_gaps(load, scenario)}"
    trace = scenario["trace"]
    assert trace is not None
    first = f" from {trace['first']}" if trace["first"] else ""
    faster = "" if load.speed == 1 else f" at {load.speed:g} times the speed"
    return f"trace {Path(load.file).name}, {trace['arrivals']:,} arrivals{first}{faster}"


def _gaps(load: ConstantRate | Stages, scenario: Scenario) -> str:
    cv = f" (cv {scenario['gamma_cv']:g})" if load.distribution is Distribution.GAMMA else ""
    return f"{load.distribution.value}{cv}"


def _stage(stage: Stage) -> str:
    rates = f"at {stage.rate:,g}/s" if stage.to_rate is None else f"from {stage.rate:,g} to {stage.to_rate:,g}/s"
    return f"{stage.duration_s:g} s {rates}"


def load_name(result: RunHeader) -> str:
    """Name a load in full: each stage, the start of a trace's digest, and how long it lasts. Raises ResultError."""
    load, scenario, trace = load_of(result), result["scenario"], result["scenario"]["trace"]
    if isinstance(load, Stages):
        return describe(load, scenario, len(load.stages))
    exact = f", sha256 {trace['sha256'][:12]}" if trace else f" for {scenario['duration_s']:g} s"
    return f"{describe(load, scenario)}{exact}"


def title(load: SingleLoad, scenario: Scenario) -> str:
    """Return a report's title: open or closed loop, and the load."""
    if isinstance(load, ConstantRate):
        return f"open loop, {load.distribution.value} {load.rate:,g} requests/s"
    return f"{'closed' if isinstance(load, ClosedLoop) else 'open'} loop, {describe(load, scenario)}"


def title_of(result: RunHeader) -> str:
    """Return the title of a run, a mix or a search for the highest rate. Raises ResultError."""
    load = load_of(result)
    if "max_rate" in result and isinstance(load, ConstantRate):
        return f"highest rate, {load.distribution.value} {figure(load.rate)} requests/s"
    return title(load, result["scenario"]) + (" in all" if "mix" in result else "")


def asked_and_answered(result: Result) -> str:
    """Say what an open loop was asked for, had on its schedule and answered; "" for a closed loop. Raises ResultError.

    Like "asked 50/s, scheduled 43.8/s, all answered": the count of a Poisson schedule is not the rate times the time.
    """
    scheduled, errors = value_of(result, "throughput.scheduled"), value_of(result, "errors.share")
    if scheduled is None:
        return ""
    asked = rate_of(result)
    parts = [f"asked {figure(asked)}/s"] if asked is not None else []
    parts.append(f"scheduled {figure(scheduled)}/s")
    if errors is not None:
        # Rounded down: 99.996 % are not all.
        answered = math.floor((1 - errors) * 1e4) / 100
        parts.append("all answered" if not errors else f"{answered:g} % answered")
    return ", ".join(parts)
