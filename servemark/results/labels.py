"""Labels of loads, suite cases and changes, as documents hold them and every view shows them."""

import math

from servemark.quantities import figure
from servemark.results.schema.history import HistoryChange
from servemark.results.schema.load import Scenario, StageLoad
from servemark.results.schema.run import Result

SHOWN_STAGES = 6


def describe(scenario: Scenario, most_stages: int = SHOWN_STAGES) -> str:
    """Return a short label of a load: "400/s poisson", "concurrency 8", "10 s at 100/s, 10 s at 400/s constant"."""
    cv = scenario.get("gamma_cv")
    distribution = f"{scenario['distribution']}{f' (cv {cv:g})' if cv is not None else ''}"
    match scenario["mode"]:
        case "closed":
            return f"concurrency {scenario['concurrency']}"
        case "stages":
            stages = [_stage(stage) for stage in scenario["stages"] or []]
            more = f", {len(stages) - most_stages} more" if len(stages) > most_stages else ""
            return f"{', '.join(stages[:most_stages])}{more} {distribution}"
        case "trace":
            trace = scenario["trace"]
            assert trace is not None
            first = f" from {trace['first']}" if trace.get("first") else ""
            speed = trace.get("speed", 1.0)
            faster = "" if speed == 1 else f" at {speed:g} times the speed"
            return f"trace {trace['file']}, {trace['arrivals']:,} arrivals{first}{faster}"
        case _:
            return f"{scenario['requested_rate']:g}/s {distribution}"


def _stage(stage: StageLoad) -> str:
    to_rate = stage.get("to_rate")
    rates = f"at {stage['rate']:g}/s" if to_rate is None else f"from {stage['rate']:g} to {to_rate:g}/s"
    return f"{stage['duration_s']:g} s {rates}"


def load_name(scenario: Scenario) -> str:
    """Name a load in full: each stage, the start of a trace's digest, and how long it lasts."""
    stages, trace = scenario["stages"], scenario["trace"]
    exact = f", sha256 {trace['sha256'][:12]}" if trace else "" if stages else f" for {scenario['duration_s']:g} s"
    return f"{describe(scenario, len(stages or ()))}{exact}"


def title(scenario: Scenario) -> str:
    """Return a report's title: open or closed loop, and the load."""
    match scenario["mode"]:
        case "closed":
            return f"closed loop, {describe(scenario)}"
        case "max-rate":
            return f"highest rate, {scenario['distribution']} {figure(scenario['requested_rate'])} requests/s"
        case "mix":
            return f"open loop, {scenario['distribution']} {scenario['requested_rate']:g} requests/s in all"
        case "open":
            return f"open loop, {scenario['distribution']} {scenario['requested_rate']:g} requests/s"
        case _:
            return f"open loop, {describe(scenario)}"


def suite_case(workload: str, precision: str, batch: int) -> str:
    """Return the label of a suite's case: "resnet50", "resnet50 int8 -b 16"."""
    return workload + ("" if precision == "fp32" else f" {precision}") + (f" -b {batch}" if batch > 1 else "")


def change(found: HistoryChange) -> str:
    """Return how far a figure's level moved, and between which commits."""
    first, second = (commit[:12] if commit else "an unknown commit" for commit in found["commits"])
    same = found["commits"][0] == found["commits"][1]
    place = f"at {first}: the commit is the same, its surroundings are not" if same else f"between {first} and {second}"
    moved = f"{found['ratio'] - 1:.1%} higher" if found["ratio"] > 1 else f"{1 - found['ratio']:.1%} lower"
    return f"{found['reading']}: {moved} {place}"


def asked_and_answered(result: Result) -> str:
    """Say what an open loop was asked for, had on its schedule and answered; "" for a closed loop.

    Like "asked 50/s, scheduled 43.8/s, all answered": the count of a Poisson schedule is not the rate times the time.
    """
    throughput, errors = result["metrics"]["throughput"], result["metrics"]["errors"]
    if throughput["scheduled_rate"] is None:
        return ""
    asked = result["scenario"]["requested_rate"]
    parts = [f"asked {figure(asked)}/s"] if asked is not None else []
    parts.append(f"scheduled {figure(throughput['scheduled_rate'])}/s")
    if errors["share"] is not None:
        # Rounded down: 99.996 % are not all.
        answered = math.floor((1 - errors["share"]) * 1e4) / 100
        parts.append("all answered" if not errors["count"] else f"{answered:g} % answered")
    return ", ".join(parts)
