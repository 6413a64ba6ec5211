"""Bottleneck of a run: the server, the generator or the network between them, with the evidence."""

from collections.abc import Mapping, Sequence, Set
from typing import Literal

from servemark.figures.registry import number
from servemark.figures.value import Figures
from servemark.quantities import figure
from servemark.results.objectives import MET
from servemark.results.schema.details import Details, JudgedObjective, LimitedBy, VerdictOfRun
from servemark.results.verdict import Kind, failed_constraints, overload

Steps = Mapping[str, float | None]
By = Literal["server", "generator", "network"]
SERVER: By = "server"
GENERATOR: By = "generator"
NETWORK: By = "network"
STEPS = ("queue", "compute_input", "compute_infer", "compute_output")
"""Steps of a request inside the server."""
SERVERS_SHARE = 0.5
"""The server is the bottleneck if it accounts for at least this share of the service time."""


def bottleneck(
    figures: Figures, details: Details, verdict: VerdictOfRun, *, open_loop: bool, in_process: bool = False
) -> LimitedBy:
    """Name what limited a run, `by` with its `evidence`; `by` is None if nothing did, or if it is not known.

    The generator is the limit if its CPU is used up, if it stood still, or if it is late with requests that did not
    wait for --max-in-flight (those that did waited for answers), unless the server is overloaded by its own figures.
    Nothing is the limit if all requests of an open loop were answered in time. Otherwise the larger part of the time
    between sending and answer decides: the server's own part, by Triton's statistics, or the rest. On a busy machine
    the rest shows nothing, because it includes waiting for a core.
    """
    failed = set(failed_constraints(verdict))
    limits = {constraint["name"]: constraint["limit"] for constraint in verdict["constraints"]}
    delay_ms, limit_ms = number(figures, "generator.delay_p99") or 0.0, limits.get(Kind.SCHEDULE_DELAY)
    late = limit_ms is not None and delay_ms > limit_ms and Kind.SCHEDULE_DELAY in failed
    missed = [each for each in verdict["objectives"] if each["status"] != MET]
    paused = next((each for each in verdict["constraints"] if each["name"] == Kind.GENERATOR_PAUSE), None)
    steps_ms = _steps_ms(figures, details)
    stood_still = paused is not None and not paused["ok"]
    if (Kind.CLIENT_CPU in failed or late or stood_still) and not _overloads(steps_ms, failed, missed, delay_ms):
        if Kind.CLIENT_CPU in failed:
            return _found(GENERATOR, f"it used {number(figures, 'generator.cpu'):.0%} of its core")
        if not late and paused is not None:
            return _found(GENERATOR, f"it stood still for {paused['value']:,.0f} ms")
        return _found(GENERATOR, f"it sent {figure(delay_ms)} ms late at p99 (limit {figure(limit_ms)} ms)")
    waited = number(figures, "generator.waited_share") or 0.0
    if open_loop and not (overload(failed) or missed or waited):
        return _found(None, "nothing: kept up with the schedule")
    by, evidence = _longest(number(figures, "service_time.mean"), steps_ms, in_process=in_process)
    if by == NETWORK and Kind.OTHER_LOAD in failed:  # the rest was waited for a core as well
        by, evidence = None, f"not known beside other work: {evidence}"
    return _found(by, f"{evidence}; {waited:.0%} of the requests waited for --max-in-flight" if waited else evidence)


def _overloads(steps_ms: Steps, failed: Set[str], missed: Sequence[JudgedObjective], delay_ms: float) -> bool:
    """Return True if the server is too slow by its own statistics, which do not include the generator's delay.

    The service time would be wrong here, because a generator that gets no CPU also reads its answers late.
    """
    inside_ms = _inside_ms(steps_ms)
    if inside_ms is None:
        return False
    return any(each["unit"] == "ms" and inside_ms > each["limit"] for each in missed) or (
        Kind.ACHIEVED_RATE in failed and inside_ms > delay_ms
    )


def _steps_ms(figures: Figures, details: Details) -> Steps:
    """Return the mean time of each step of a request inside the server; for a pipeline, each step of its models."""
    if not (composing := details["server"].get("composing")):
        return _steps_of(figures)
    return {
        f"{name}'s {step}": None if value is None else calls * value
        for name, part in composing.items()
        if (calls := number(part["figures"], "server.calls"))  # one that was not called took no time
        for step, value in _steps_of(part["figures"]).items()
    }


def _steps_of(figures: Figures) -> Steps:
    return {step.replace("_", " "): number(figures, f"server.{step}") for step in STEPS}


def _inside_ms(steps: Steps) -> float | None:
    """Return the mean time of a request inside the server."""
    known = [value for value in steps.values() if value is not None]
    return sum(known) if steps and len(known) == len(steps) else None


def _longest(service_ms: float | None, steps_ms: Steps, *, in_process: bool) -> tuple[By | None, str]:
    """Find the step on which a request spent most of the time between sending and answer."""
    if service_ms is None:
        return None, "not known: no request succeeded"
    if in_process:
        return None, f"the engine: {figure(service_ms)} ms service time; in-process there is no server"
    inside_ms = _inside_ms(steps_ms)
    if inside_ms is None:
        return None, f"server or network: {figure(service_ms)} ms service time; the server gives no statistics"
    if inside_ms < SERVERS_SHARE * service_ms:
        rest = "the rest is the network and the server's front end"
        return NETWORK, f"queue and compute {figure(inside_ms)} ms of {figure(service_ms)} ms service time; {rest}"
    step_ms, step = max((value or 0.0, name) for name, value in steps_ms.items())
    whole = f"queue and compute together {figure(inside_ms)} ms of {figure(service_ms)} ms service time"
    return SERVER, f"{step} {figure(step_ms)} ms, {whole}"


def _found(by: By | None, evidence: str) -> LimitedBy:
    return {"by": by, "evidence": evidence}
