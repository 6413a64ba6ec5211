"""Runs are repeats only where every field of their load is the same."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest

from servemark.compare.history.collect import collect
from servemark.compare.history.metrics import METRICS
from servemark.compare.saved.saved_runs import subjects
from servemark.results import directory
from servemark.results.same_load import load_key
from servemark.results.schema.load import Scenario, TraceLoad
from tests.servemark.compare.saved.test_differences import run_of

TRACE = {"file": "t.csv", "sha256": "ab" * 32, "arrivals": 100, "samples": False, "first": None, "speed": 1.0}
STAGES = [{"duration_s": 5.0, "rate": 100.0 + number} for number in range(7)]
LOAD: Any = {
    "mode": "open",
    "distribution": "gamma",
    "gamma_cv": 2.0,
    "requested_rate": 100.0,
    "concurrency": None,
    "duration_s": 10.0,
    "measured_s": 10.1,
    "warmup_s": 2.0,
    "stages": STAGES,
    "trace": TRACE,
}
CHANGES = {
    "mode": {"mode": "trace"},
    "distribution": {"distribution": "constant"},
    "gamma_cv": {"gamma_cv": 8.0},
    "requested_rate": {"requested_rate": 101.0},
    "concurrency": {"concurrency": 4},
    "duration_s": {"duration_s": 20.0},
    "stages": {"stages": [*STAGES[:6], {"duration_s": 5.0, "rate": 900.0}]},
    "trace.sha256": {"trace": TRACE | {"sha256": "cd" * 32}},
    "trace.arrivals": {"trace": TRACE | {"arrivals": 101}},
    "trace.samples": {"trace": TRACE | {"samples": True}},
    "trace.first": {"trace": TRACE | {"first": "2026-01-01T00:00:00.000+00:00"}},
    "trace.speed": {"trace": TRACE | {"speed": 2.0}},
}
NO_PART = {"measured_s": 10.2, "warmup_s": 3.0, "warmup": {"method": "MSER"}, "trace": TRACE | {"file": "other.csv"}}
"""Measured values, values before the interval and places, which are not a part of the load."""


def test_every_field_of_a_load_is_considered() -> None:
    fields = {*get_type_hints(Scenario)} - {"trace"} | {f"trace.{name}" for name in get_type_hints(TraceLoad)}
    assert fields == {*CHANGES, "measured_s", "warmup_s", "warmup", "trace.file"}


@pytest.mark.parametrize("change", CHANGES)
def test_another_value_makes_another_group(change: str) -> None:
    runs = [run_of(10), run_of(10, seed=1)]
    for run, load in zip(runs, (LOAD, LOAD | CHANGES[change]), strict=True):
        run.result["scenario"] = load
    assert len(subjects(runs)) == 2


@pytest.mark.parametrize("field", NO_PART)
def test_what_is_no_part_of_a_load_makes_no_other_group(field: str) -> None:
    assert load_key(LOAD) == load_key(LOAD | {field: NO_PART[field]})


def test_a_history_has_a_series_for_each_load(tmp_path: Path) -> None:
    loads = [LOAD, LOAD | {"gamma_cv": 8.0}, LOAD]
    for number, load in enumerate(loads):
        result: Any = run_of(10).result
        folder = tmp_path / str(number)
        folder.mkdir()
        directory.write(folder, result | {"scenario": load, "created": "2026-01-01T00:00:00+00:00"})
    found, _, unreadable = collect(tmp_path, METRICS["latency_p50"])
    assert (len(found), len({each.key for each in found}), unreadable) == (3, 2, [])
