"""Results read as points: of a search, and of a curve, whose knee is known by the formula of M/M/1."""

import json
from pathlib import Path
from typing import Any

import pytest

from servemark.figures.registry import value_of
from servemark.search.points import curve, point_of
from servemark.workload import get
from tests.support.command_line import Servemark
from tests.support.locust_run import results_in, server_of
from tests.support.results import objective_of

CAPACITY = 1000.0


def run(
    rate: float, mean_ms: float | None, completed: float = 1.0, *, valid: bool = True, objective: str = "met"
) -> Any:
    """As much of a result as the curve is made from."""
    return {
        "request": {"load": {"kind": "constant-rate", "rate": rate}},
        "resolved": {},
        "verdict": {"valid": valid, "objective": objective, "constraints": []},
        "figures": {
            **{f"latency.{key}": {"value": mean_ms, "unit": "ms"} for key in ("mean", "p50", "p90", "p99", "max")},
            "throughput.requests": {"value": rate * completed, "unit": "requests/s"},
            "throughput.scheduled": {"value": rate, "unit": "requests/s"},
        },
    }


def mm1(rate: float) -> Any:
    if rate >= CAPACITY:
        return run(rate, 5000.0, CAPACITY / rate, valid=False)
    return run(rate, 1e3 / (CAPACITY - rate))


def test_the_knee_of_mm1_is_where_its_power_is_greatest() -> None:
    """Throughput over mean latency, rate * (capacity - rate), is greatest at half the capacity."""
    rates = [1.0, *[50.0 * n for n in range(1, 30)]]
    found = curve([mm1(rate) for rate in rates])
    assert found["knee"] == 500
    assert max(rates, key=lambda rate: rate * (CAPACITY - rate)) == 500
    assert "at 550/s the mean latency is 2.22 times that of 1/s" in found["knee_reason"]
    assert [point["rate"] for point in found["points"]] == rates


def test_a_rate_that_falls_behind_ends_the_curve_too() -> None:
    found = curve([run(100, 1.0), run(200, 1.2), run(300, 1.3, 0.985), run(400, 1.1)])
    assert found["knee"] == 200
    assert found["knee_reason"] == "at 300/s only 98.5% of what was scheduled was completed"


def test_a_range_that_does_not_reach_the_knee_or_begins_beyond_it() -> None:
    below = curve([run(100, 1.0), run(200, 1.5)])
    assert (below["knee"], below["knee_reason"]) == (
        None, "at 200/s, the highest rate, the mean latency is 1.5 times that of 100/s",
    )  # fmt: skip
    beyond = curve([run(100, 1.0, 0.7), run(200, 1.5, 0.4)])
    assert beyond["knee"] is None
    assert "already at 100/s, the lowest rate, only 70.0%" in beyond["knee_reason"]
    assert curve([run(100, None, 0.0)])["knee"] is None


def test_repeats_are_one_point_at_their_median() -> None:
    runs = [run(100, ms) for ms in (1.0, 1.1, 9.0)] + [run(200, ms) for ms in (1.5, 1.4, 8.0)]
    found = curve(runs)
    assert [(p["rate"], p["runs"], p["mean_ms"]) for p in found["points"]] == [(100, 3, 1.1), (200, 3, 1.5)]


def test_a_range_of_rates_is_one_run_for_each_and_gives_a_curve(servemark: Servemark, tmp_path: Path) -> None:
    """200/s at most, whatever the machine: 600/s cannot all be completed."""
    with server_of(get("ranking_tiny"), capacity_per_s=200.0) as server:
        flags = ["--request-rate-range", "50:600:550", "--duration", "0.5", "--warmup", "0.1", "--json", "--seed", "7"]
        flags += ["--model-repository", str(tmp_path / "none"), "--out", str(tmp_path)]
        flags += ["--request-distribution", "constant"]
        code, out, _ = servemark("run", "ranking_tiny", "-u", server.url, *flags)
    document = json.loads(out)
    assert code == 2
    low, high = document["curve"]["points"]
    assert (low["rate"], high["rate"]) == (50, 600)
    assert high["completed_share"] < 0.5
    assert document["curve"]["knee"] in {50, None}  # None: this machine was too busy even for 50/s
    runs = document["results"]
    assert [run["request"]["load"]["rate"] for run in runs] == [50, 600]
    assert [value_of(run, "requests.answered") for run in runs] == [25, 300]
    assert [run["seed"] for run in runs] == [7, 7]
    # One folder, with a run beneath for each rate.
    [folder] = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["01-50", "02-600"]
    assert len(results_in(folder)) == 2
    page = (folder / "report.html").read_text()
    assert "50/s requested" in page
    assert "Latency over the answered rate" in page


def result(**changes: Any) -> Any:
    """As much of a load result as a point is read from."""
    names = ("error_rate", "achieved_rate", "schedule_delay_p99", "client_cpu", "steady_state", "server_alive")
    constraints: list[dict[str, Any]] = [{"name": n, "ok": n not in changes.get("failed", ())} for n in names]
    objective = changes.get("objective", "met")
    objectives = changes.get("objectives") or [objective_of(objective)]
    return {
        "request": {"load": {"kind": "constant-rate", "rate": 120.0}},
        "resolved": {},
        "verdict": {"constraints": constraints, "objective": objective, "objectives": objectives},
        "bottleneck": {"by": changes.get("by", "generator"), "evidence": ""},
    }


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({"failed": ("schedule_delay_p99",)}, "generator"),
        ({"failed": ()}, None),
        ({"failed": (), "objective": "missed"}, "server"),
        ({"failed": ("schedule_delay_p99",), "objective": "missed"}, "generator"),
        ({"failed": ("schedule_delay_p99",), "objective": "missed", "by": "server"}, "server"),
        ({"failed": ("client_cpu",)}, "generator"),
        ({"failed": ("client_cpu",), "objective": "missed", "by": "server"}, "server"),
        ({"failed": ("error_rate",), "by": "server"}, "server"),
        ({"failed": ("server_alive", "error_rate"), "by": "server"}, "broken"),
        ({"failed": ("steady_state",), "by": "server"}, "unsteady"),
    ],
)
def test_a_result_is_read_as_a_point(changes: dict[str, Any], limit: str | None) -> None:
    point = point_of(result(**changes), "there")
    assert (point.rate, point.latency_ms, point.directory) == (120.0, 60.0, "there")
    assert point.failed == frozenset(changes["failed"])
    assert point.objective == changes.get("objective", "met")
    assert point.met == (not changes["failed"] and point.objective == "met")
    assert point.limit == limit
    assert point.doubtful is (limit in {"generator", "unsteady"})
    assert point.to_dict()["failed"] == sorted(changes["failed"])
    assert not point.counts


def test_the_requests_over_the_nearest_objective_count() -> None:
    shown = {"confidence": 0.99, "requests": 2000, "over": 12, "holds": True, "more_requests": 0}
    far = objective_of("met") | {"percentile": 50.0, "shown": shown | {"over": 100}}
    near = objective_of("met") | {"shown": shown}
    point = point_of(result(failed=(), objectives=[far, near]), "there")
    assert (point.over, point.requests, point.allowed, point.counts) == (12, 2000, 0.01, True)
    # An objective that is not about a latency may be missed: how many were over the limit says nothing then.
    assert not point_of(result(failed=(), objective="missed", objectives=[near]), "there").counts
    assert not point_of(result(failed=("steady_state",), objectives=[near]), "there").counts
