"""Bottleneck of a run, from its figures."""

from typing import Any

import pytest

from servemark.figures.value import FigureValue
from servemark.results.bottleneck import bottleneck
from servemark.results.verdict import Kind
from tests.support.results import objective_of


def number(value: float | None) -> FigureValue:
    return {"value": value, "unit": ""}


def steps(**values: float | None) -> dict[str, FigureValue]:
    """A server's figures."""
    return {f"server.{name}": number(value) for name, value in values.items()}


def figures(**changes: Any) -> dict[str, FigureValue]:
    """As many of a result's figures as tell what limited; a server that queues for most of the time."""
    spent: dict[str, float | None] = {"queue": 80.0, "compute_input": 1.0, "compute_infer": 15.0, "compute_output": 0.5}
    factor = None if changes.get("no_statistics") else changes.get("server", 1.0)
    return {
        "service_time.mean": number(changes.get("service_ms", 100.0)),
        **steps(**{name: ms * factor if ms and factor else None for name, ms in spent.items()}),
        "generator.cpu": number(0.95),
        "generator.delay_p99": number(changes.get("own_ms", 0.2)),
        "generator.waited_share": number(changes.get("waited", 0.0)),
    }


ALONE: Any = {"server": {}}


def verdict(*failed: str) -> Any:
    constraints = [{"name": kind.value, "ok": kind not in failed, "value": 1003.0, "limit": 1.0} for kind in Kind]
    return {"constraints": constraints, "objectives": [objective_of("missed" if "slo" in failed else "met")]}


CASES: list[tuple[dict[str, Any], tuple[str, ...], bool, str | None, str]] = [
    ({}, (), True, None, "nothing: kept up with the schedule"),
    ({}, ("steady_state",), True, None, "nothing"),
    ({}, ("slo",), True, "server", "queue 80 ms, queue and compute together 96.50 ms of 100 ms service time"),
    ({"waited": 0.4}, ("achieved_rate",), True, "server", "40% of the requests waited for --max-in-flight"),
    ({"waited": 0.4}, (), True, "server", "40% of the requests waited"),
    ({"own_ms": 5.0, "server": 0.1}, ("schedule_delay_p99", "slo"), True, "generator", "5 ms late at p99 (limit 1 ms)"),
    ({"own_ms": 5.0}, ("schedule_delay_p99",), True, "generator", "5 ms late"),
    ({"own_ms": 5.0, "no_statistics": True}, ("schedule_delay_p99", "slo"), True, "generator", "5 ms late"),
    ({"own_ms": 5.0}, (), True, None, "nothing: kept up"),  # so few late sends that they may be luck
    # a server whose own time is over the objective, or that falls behind for longer than the generator is late
    ({"own_ms": 5.0}, ("schedule_delay_p99", "slo"), True, "server", "queue 80 ms"),
    ({"own_ms": 5.0}, ("schedule_delay_p99", "achieved_rate"), True, "server", "queue 80 ms"),
    # a generator without CPU is late with everything, and the server is not to blame
    ({"own_ms": 888.0, "server": 0.1}, ("schedule_delay_p99", "achieved_rate", "slo"), True, "generator", "888 ms"),
    # late only because requests waited for answers
    ({"own_ms": 0.2, "waited": 0.9}, ("schedule_delay_p99", "slo"), True, "server", "queue"),
    ({"own_ms": None, "waited": 1.0}, ("schedule_delay_p99",), True, "server", "100% of the requests"),
    ({"server": 0.001}, ("client_cpu", "achieved_rate"), True, "generator", "95% of its core"),
    ({}, ("client_cpu",), True, "generator", "95% of its core"),
    ({"server": 0.01}, ("slo",), True, "network", "0.965 ms of 100 ms service time"),
    ({"server": 0.01}, ("slo", "other_load"), True, None, "not known beside other work: queue and compute 0.965 ms"),
    ({}, ("slo", "other_load"), True, "server", "queue 80 ms"),
    ({"no_statistics": True}, ("slo",), True, None, "server or network: 100 ms service time"),
    ({"service_ms": None}, ("error_rate",), True, None, "no request succeeded"),
    ({"in_process": True}, ("slo",), True, None, "the engine: 100 ms service time"),
    ({"own_ms": None, "waited": None}, ("generator_pause",), False, "generator", "it stood still for 1,003 ms"),
    # a closed loop always has a bottleneck
    ({"own_ms": None, "waited": None}, (), False, "server", "queue 80 ms"),
    ({"own_ms": None, "waited": None, "service_ms": 300.0}, (), False, "network", "96.50 ms of 300 ms"),
]


@pytest.mark.parametrize(("changes", "failed", "open_loop", "by", "evidence"), CASES)
def test_what_limited(
    changes: dict[str, Any], failed: tuple[str, ...], open_loop: bool, by: str | None, evidence: str
) -> None:
    alone = changes.get("in_process", False)
    found = bottleneck(figures(**changes), ALONE, verdict(*failed), open_loop=open_loop, in_process=alone)
    assert found["by"] == by
    assert evidence in str(found["evidence"])


def test_a_pipeline_s_time_is_that_of_its_models() -> None:
    def part(calls: float, infer_ms: float | None) -> dict[str, Any]:
        one = None if infer_ms is None else 1.0
        found = steps(queue=one, compute_input=one, compute_infer=infer_ms, compute_output=one)
        return {"figures": {**found, "server.calls": number(calls)}, "batch_sizes": {}}

    found = figures(server=0.01)
    assert bottleneck(found, ALONE, verdict("slo"), open_loop=True)["by"] == "network"
    models = {"detector": part(1, 20.0), "classifier": part(3, 15.0), "idle": part(0, None)}
    details: Any = {"server": {"composing": models}}
    limited = bottleneck(found, details, verdict("slo"), open_loop=True)
    assert limited["by"] == "server"
    assert limited["evidence"].startswith("classifier's compute infer 45 ms, queue and compute together")
