"""The ladder: rungs add up to p99, and what cannot be measured is left out with its reason."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from servemark.errors import ServemarkError, ServerError
from servemark.explain.ladder import (
    ENGINE,
    MEDIAN,
    OPERATORS,
    SERVED,
    SHARED,
    TAIL,
    Found,
    Measurement,
    common,
    measured,
    of_engine,
    of_run,
    percentiles,
)
from servemark.profiling.timeline import Event, Inference
from servemark.results.schema.explanation import Ladder, ServerSteps
from servemark.views.blocks import Figure, Lines
from servemark.views.kinds.run.explanation import ladder

STEPS: ServerSteps = {"queue_ms": 0.1, "input_ms": 0.2, "infer_ms": 0.3, "output_ms": 0.4}


def climbed(rounds: int = 5) -> Ladder:
    return measured(
        {
            ENGINE: lambda number: Found({OPERATORS: 1.0 + number, ENGINE: 1.5 + number}),
            SHARED: lambda number: Found({SHARED: 3.0 + number}, STEPS),
            SERVED: lambda number: Found({SERVED: 2.5 + 1.1 * number}, STEPS),
            MEDIAN: lambda number: Found({MEDIAN: 6.0 + number, TAIL: 9.0 + 2 * number}),
        },
        rounds,
    )


def test_the_differences_of_neighbours_add_up_to_p99() -> None:
    rungs = climbed()["rungs"]
    assert [rung["rung"] for rung in rungs] == [OPERATORS, ENGINE, SHARED, SERVED, MEDIAN, TAIL]
    assert sum(rung["step_ms"] for rung in rungs) == pytest.approx(9.0 + 2 * 3)
    assert rungs[-1]["mean_ms"] == pytest.approx(15.0)


def test_the_interval_is_of_the_difference_in_each_round_and_needs_five() -> None:
    _, engine, _, served, *_ = climbed()["rungs"]
    assert engine["step_ci95_ms"] == pytest.approx([0.5, 0.5])  # the rounds differ, and the rungs with them
    assert served["step_ci95_ms"] is not None
    low, high = served["step_ci95_ms"]
    assert low < served["step_ms"] < high
    assert {rung["step_ci95_ms"] is None for rung in climbed(rounds=4)["rungs"]} == {True}


def test_the_order_turns_from_round_to_round() -> None:
    seen: list[str] = []

    def measurement(name: str) -> Measurement:
        def measure(_: int) -> Found:
            seen.append(name)
            return Found({name: 1.0})

        return measure

    measured({name: measurement(name) for name in (SHARED, SERVED, MEDIAN)}, 2)
    assert seen == [SHARED, SERVED, MEDIAN, MEDIAN, SERVED, SHARED]


def test_what_fails_in_the_first_round_is_left_out_with_its_reason() -> None:
    def refuse(_: int) -> Found:
        raise ServerError("the server runs on another machine")

    found = measured({SHARED: refuse, MEDIAN: lambda _: Found({MEDIAN: 2.0})}, 2, "the engine is its own")
    assert [rung["rung"] for rung in found["rungs"]] == [MEDIAN]
    assert {each["rung"]: each["reason"] for each in found["left_out"]} == {
        ENGINE: "the engine is its own",
        SHARED: "the server runs on another machine",
    }
    with pytest.raises(ServerError):
        measured({MEDIAN: refuse}, 1)


def test_what_fails_later_is_an_error() -> None:
    calls = itertools.count()

    def fail_later(_: int) -> Found:
        if next(calls):
            raise ServerError("gone")
        return Found({SHARED: 1.0})

    with pytest.raises(ServerError, match="gone"):
        measured({SHARED: fail_later, MEDIAN: lambda _: Found({MEDIAN: 2.0})}, 2)


@pytest.mark.parametrize(("device", "operators_ms"), [("cpu", 1.5), ("cuda:0", 3.0)])
def test_operators_have_their_share_beside_the_profiler_and_on_a_gpu_their_time(
    device: str, operators_ms: float
) -> None:
    inference = Inference(0.004, [Event("conv", "Conv", 0.0, 3000.0)])
    one: Any = SimpleNamespace(cost={"plain_ms": 2.0}, inference=inference)
    assert of_engine(one, device).ms == pytest.approx({OPERATORS: operators_ms, ENGINE: 2.0})


@pytest.mark.parametrize("p99", [None, 7.0])
def test_a_run_without_p99_ends_at_its_median(p99: float | None) -> None:
    steps = {f"server.{name}": 0.25 for name in ("queue", "compute_input", "compute_infer", "compute_output")}
    values = {"latency.p50": 2.0, "latency.p99": p99, **steps}
    result: Any = {"figures": {tag: {"value": value, "unit": "ms"} for tag, value in values.items()}}
    found = of_run(MEDIAN, result)
    assert found.ms == ({MEDIAN: 2.0} if p99 is None else {MEDIAN: 2.0, TAIL: 7.0})
    assert found.server == dict.fromkeys(("queue_ms", "input_ms", "infer_ms", "output_ms"), 0.25)


def test_both_sides_are_compared_by_the_highest_percentile_that_all_runs_have() -> None:
    values = {"latency.p50": 2.0, "latency.p90": 3.0, "latency.p95": 4.0, "latency.p99": None}
    short: Any = {"figures": {tag: {"value": value, "unit": "ms"} for tag, value in values.items()}}
    known = percentiles(short)
    assert known == {"p95": 4.0, "p90": 3.0, "p50": 2.0}
    assert common([{**known, "p99": 9.0}, known]) == "p95"
    with pytest.raises(ServemarkError, match="too few requests"):
        common([known, {}])


def test_the_page_shows_each_rung_and_what_is_missing() -> None:
    found = climbed()
    found["left_out"] = [{"rung": SHARED, "reason": "another machine"}]
    figure, lines = ladder(found)
    assert isinstance(figure, Figure)
    assert [row[0] for row in figure.table.rows] == [rung["words"] for rung in found["rungs"]]
    assert isinstance(lines, Lines)
    assert lines.lines == ["no shared memory: another machine"]
