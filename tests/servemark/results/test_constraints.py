"""Each constraint of the verdict both ways, at its limit, and the exit code that follows."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from servemark.errors import ExitCode
from servemark.machine.cpu_time import CpuUse
from servemark.results.constraints import Observations, judge
from servemark.results.constraints import WindowFigures as W
from servemark.results.directory import to_json
from servemark.results.objectives import Seen, Slo
from servemark.results.schema.details import Constraint, VerdictOfRun

GOOD = Observations(
    requests=1500,
    measured_s=15.0,
    errors=0,
    max_error_rate=0.01,
    cpu_utilization=0.3,
    windows=[W(100.0, 5.0)] * 15,
    schedule_delay_p99_ms=0.2,
    latency_p99_ms=8.0,
)
OPEN = dataclasses.replace(GOOD, open_loop=True, windows=[W(1.0, 5.0)] * 15)
SLO = Slo(99, 10)


def p99_of(value: float | None, answered: int = 1500) -> dict[str, Any]:
    """An objective of 10 ms at p99, and what was seen."""
    over = answered // 100 + (value is not None and value > SLO.limit)
    return {"objectives": [Seen(SLO, value, over, answered)]}


def answers(*counts: float) -> dict[str, Any]:
    """Windows of a closed loop by their answers."""
    return {"windows": [W(count, 5.0) for count in counts]}


def medians(*p50_ms: float | None) -> dict[str, Any]:
    """Windows of an open loop by their p50."""
    return {"windows": [W(1.0, ms) for ms in p50_ms]}


def tails(answered: float, *slow: int) -> dict[str, Any]:
    """Windows by their requests beyond the p99."""
    return {"windows": [W(answered, 5.0, count) for count in slow]}


RISING = (80, 84, 90, 88, 95, 99, 104, 110, 112, 120)
SCATTERED = (5, 7, 4, 6, 9, 5, 4, 8, 5, 7)
BUSY = CpuUse(2, 2.0, {}, 0.5, 0.1, "make (pid 7) 0.4")
ELSEWHERE = CpuUse(2, 2.0, {"server": 0.0}, 0.5, 0.0, "app (pid 7) 0.4")
PROXIED = CpuUse(2, 2.0, {"server": 0.1}, 0.5, 0.0, "app (pid 7) 0.4")
STOLEN = CpuUse(2, 2.0, {}, 0.01, 0.3, None)
LATE = {"schedule_delay_p99_ms": 900.0}


def verdict(base: Observations, **changes: Any) -> VerdictOfRun:
    return judge(dataclasses.replace(base, **changes))


def constraint(judged: VerdictOfRun, name: str) -> Constraint:
    [found] = [c for c in judged["constraints"] if c["name"] == name]
    return found


Case = tuple[Observations, dict[str, Any], str]
HOLDS = ""
CASES: dict[str, Sequence[Case]] = {
    "completed": [(GOOD, {}, HOLDS), (GOOD, {"interrupted": "stopped before its end"}, "stopped before its end")],
    "other_load": [
        (GOOD, {"machine": CpuUse(2, 2.0, {}, 0.09, 0.0, None)}, HOLDS),
        (GOOD, {"machine": BUSY}, "0.5 of 2 cores, by make (pid 7) 0.4: stop"),
        (GOOD, {"machine": BUSY}, "stop other work; other virtual machines took 0.1 of 2 cores: try"),
        (GOOD, {"machine": ELSEWHERE}, "stop other work; or measure"),
        (GOOD, {"machine": PROXIED}, "serves these requests, name it: --server-process NAME"),
        (GOOD, {"machine": STOLEN}, "other virtual machines took 0.3 of 2 cores: try again later"),
    ],
    "generator_pause": [
        (GOOD, {"longest_pause_ms": 100.0}, HOLDS),
        (GOOD, {"longest_pause_ms": 200.0}, "the generator stood still"),
        (OPEN, {"longest_pause_ms": 1000.0}, "SIGSTOP"),
        # 0.1 % of ten minutes
        (GOOD, {"longest_pause_ms": 600.0, "measured_s": 600.0}, HOLDS),
        (GOOD, {"longest_pause_ms": 601.0, "measured_s": 600.0}, "stood still"),
    ],
    "error_rate": [
        (GOOD, {"errors": 15}, HOLDS),
        (GOOD, {"errors": 16}, "--max-error-rate"),
        (GOOD, {"errors": 1, "max_error_rate": 0.0}, "errors by kind"),
        (GOOD, {"errors": 1500, "max_error_rate": 1.0}, HOLDS),
        (GOOD, {"errors": 21, "timeouts": 11}, "raise --request-timeout"),
        (GOOD, {"errors": 22, "timeouts": 11}, "errors by kind"),
        (GOOD, {"errors": 90, "timeouts": 90, "unsent": 80}, "(80 were never sent"),
        (GOOD, {"requests": 0, "max_error_rate": 0.5}, "no request was sent"),
    ],
    "achieved_rate": [
        (OPEN, {"unfinished_growth": 15}, HOLDS),
        (OPEN, {"unfinished_growth": 16, "relief": "it needs more instances"}, "up: it needs more instances"),
        (OPEN, {"errors": 10, "unfinished_growth": 6}, "cannot keep up"),
        # 3 * sqrt(100) = 30 of 1500 may be chance where about 50 are in flight at each edge
        (OPEN, {"unfinished_growth": 30, "in_flight_edges": 100}, HOLDS),
        (OPEN, {"unfinished_growth": 31, "in_flight_edges": 100}, "cannot keep up"),
        (OPEN, {"unfinished_growth": -40, "in_flight_edges": -1}, HOLDS),
        # a queue near its capacity goes up and down
        (OPEN, {"unfinished_growth": 45, "growth_of_windows": [30, -20, 40, -10, -25, 50, -20]}, HOLDS),
        (OPEN, {"unfinished_growth": 45, "growth_of_windows": [6, 9, 4, 7, 5, 8, 6]}, "keep up"),
    ],
    "schedule_delay_p99": [
        (OPEN, LATE | {"generator_delay_p99_ms": 0.3}, "waited for --max-in-flight, so the server cannot keep up"),
        (OPEN, LATE | {"generator_delay_p99_ms": 70.0}, "the generator is late"),
        (OPEN, {"schedule_delay_p99_ms": 1.0}, HOLDS),
        (OPEN, {"schedule_delay_p99_ms": 1.01}, "generator is late"),
        (OPEN, {"schedule_delay_p99_ms": 5.0, "latency_p99_ms": 500.0}, HOLDS),
        (OPEN, {"schedule_delay_p99_ms": 5.1, "latency_p99_ms": 500.0}, "--max-in-flight"),
    ],
    "workers": [
        (GOOD, {"workers": 3}, HOLDS),
        (GOOD, {"workers": 3, "worker_troubles": ["worker 1 (a, pid 7): it quit"]}, "worker 1 (a, pid 7)"),
    ],
    "clock_sync": [
        (GOOD, {"workers": 2, "clock_uncertainty_ms": 10.0}, HOLDS),
        (GOOD, {"workers": 2, "clock_uncertainty_ms": 10.1}, "between master and workers"),
    ],
    "client_cpu": [(GOOD, {"cpu_utilization": 0.90}, HOLDS), (GOOD, {"cpu_utilization": 0.91}, "the generator")],
    "enough_samples": [
        (GOOD, {"requests": 20}, HOLDS),
        (GOOD, {"requests": 20, "errors": 1, "max_error_rate": 1.0}, "p50 needs 20"),
        # 20 requests at 4 in 40.7 s take 204 s, and a tenth more
        (GOOD, {"requests": 5, "errors": 1, "measured_s": 40.7}, "raise --duration to about 230 s"),
        # a trace and stages have no --duration
        (OPEN, {"requests": 4, "longer": "lengthen the trace"}, "requests: lengthen the trace to about 83 s"),
        (OPEN, {"requests": 0, "longer": "lengthen the trace"}, "requests: lengthen the trace"),
        (GOOD, {"requests": 0}, "p50 needs 20 requests: raise --duration"),
        (GOOD, {"requests": 1, "measured_s": 0.0}, "p50 needs 20 requests: raise --duration"),
    ],
    "steady_state": [
        (GOOD, answers(100, 90, 120, 95, 105, 130, 98), HOLDS),
        (GOOD, answers(*RISING), "answers drifted up over the windows (80 84"),
        (GOOD, answers(*RISING[::-1]), "--warmup"),
        # one way, but by less than 10 %
        (GOOD, answers(*range(100, 110)), HOLDS),
        (GOOD, answers(0, 0, 0, 0, 90, 100, 110, 120, 130, 140), "drifted up"),
        (GOOD, answers(*[100] * 6), "fewer than 7 windows have a figure: raise --duration"),
        (GOOD, {"windows": [W(100, 5.0)] * 9 + [W(0.0, None)]}, "nothing was answered in the last"),
        (GOOD, {"requests": 29}, "30 requests are needed"),
        (GOOD, {"requests": 30}, HOLDS),
        (GOOD, {"requests": 10, "measured_s": 10.0}, "raise --duration to about 33 s"),
        # the open loop's queue swings without a drift, and one window begins with what the last one left
        (OPEN, medians(*SCATTERED), HOLDS),
        (OPEN, medians(4, 6, 5, 4, 7, 5, 8, 6, 9, 8), HOLDS),
        (OPEN, medians(4, 5, 6, 8, 7, 9, 10, 11, 13, 12), "p50 (ms) drifted up"),
        (OPEN, medians(9, 8, 7, 6, 5.2, 4.6, 4, 3.5, 3, 2.7), "drifted down"),
        (OPEN, medians(5, 5.2, 4.9, 5, 5.1, 10, 10.3, 9.8, 10, 10.1), "up"),
        (OPEN, tails(1.0, 2, 4, 6, 7, 10, 11, 13, 16, 17, 20), "the tail grew: 2 4 6 7 10 11 13 16 17 20 requests"),
        (GOOD, tails(9.0, 0, 0, 1, 0, 0, 9, 0, 0, 0, 15), HOLDS),
        (OPEN, medians(5, None, 4, 6, 9, 5, 4, 8), HOLDS),
        (OPEN, medians(5, None, 4, 6, 9, 5, 4), "fewer than 7"),
    ],
    "generator_errors": [(GOOD, {"generator_errors": 1}, "an error of servemark")],
    "server_alive": [
        (GOOD, {}, HOLDS),
        (GOOD, {"server_restarted": True}, "restarted during the run"),
        (GOOD, {"server_gone": True}, "did not answer after the run"),
        (GOOD, {"backend_died": True}, "restart the server"),
    ],
    "output_agreement": [
        (GOOD, {"outputs_checked": 5}, HOLDS),
        (GOOD, {"outputs_checked": 0}, "no golden request"),
        (GOOD, {"outputs_checked": 5, "output_mismatch": "'Y' is off"}, "'Y' is off"),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_constraint(name: str, case: Case) -> None:
    base, changes, remedy = case
    judged = verdict(base, **changes)
    found = constraint(judged, name)
    assert found["ok"] is (remedy == HOLDS)
    assert remedy in found["remedy"]
    assert judged["valid"] == all(c["ok"] for c in judged["constraints"])
    # A result that cannot be written would lose the run: JSON has no infinity.
    assert json.loads(to_json(judged))["valid"] == judged["valid"]


def test_every_constraint_is_tried_both_ways() -> None:
    everything = verdict(OPEN, **p99_of(8.0), machine=BUSY, outputs_checked=1, workers=2)
    # Where there is an error of ours, the constraint is there, and fails.
    names = CASES.keys() - {"generator_errors"}
    assert {c["name"] for c in everything["constraints"]} == names
    for name in names:
        assert {remedy == HOLDS for *_, remedy in CASES[name]} == {True, False}


def test_a_pause_of_an_open_loop_that_the_kernel_times_is_late_sending() -> None:
    paused = {"longest_pause_ms": 5000.0}
    for base, by_kernel, judged in ((OPEN, True, False), (OPEN, False, True), (GOOD, True, True)):
        names = [c["name"] for c in verdict(base, kernel_clock=by_kernel, **paused)["constraints"]]
        assert ("generator_pause" in names) is judged


def test_constraints_that_do_not_apply_are_left_out() -> None:
    skipped = {"other_load": "the server is on another machine", "client_cpu": "not known"}
    found = verdict(OPEN, machine=BUSY, cpu_utilization=1.0, skipped=skipped)
    assert not skipped.keys() & {c["name"] for c in found["constraints"]}
    assert found["valid"]
    names = {c["name"] for c in verdict(GOOD)["constraints"]}
    assert names.isdisjoint({"achieved_rate", "schedule_delay_p99", "output_agreement"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ExitCode.VALID),
        (p99_of(10.0), ExitCode.VALID),
        (p99_of(10.01), ExitCode.SLO_MISSED),
        (p99_of(10.01, answered=200), ExitCode.INVALID),
        # an invalid run says nothing about the objective
        ({**p99_of(11.0), "errors": 100}, ExitCode.INVALID),
        ({"cpu_utilization": 1.0}, ExitCode.INVALID),
        ({"interrupted": "Ctrl-C"}, ExitCode.INVALID),
    ],
)
def test_exit_code(changes: dict[str, Any], code: ExitCode) -> None:
    judged = verdict(GOOD, **changes)
    assert judged["exit_code"] == int(code)
    assert judged["valid"] is not (code is ExitCode.INVALID and judged["objective"] != "undecided")


def test_the_cause_is_named_before_its_consequences() -> None:
    judged = verdict(OPEN, machine=BUSY, schedule_delay_p99_ms=9.0, errors=100, cpu_utilization=1.0)
    assert next(c["name"] for c in judged["constraints"] if not c["ok"]) == "other_load"


def test_scatter_is_no_drift_and_said_to_be_scatter() -> None:
    found = constraint(verdict(OPEN, **medians(*SCATTERED)), "steady_state")
    assert (found["value"], found["limit"]) == (2.25, None)
    assert found["unit"].endswith("scattered, not drifted (5 7 4 6 9 5 4 8 5 7)")
    assert "drifted" not in constraint(verdict(OPEN), "steady_state")["unit"]
