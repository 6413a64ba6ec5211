"""Documents as runs of MLflow: every kind has its page, its figures, and nothing that MLflow would refuse."""

import json
import math
import re
from pathlib import Path

import pytest

from servemark.figures.registry import value_of
from servemark.monitoring.mlflow import TrackedRun
from servemark.results.saved import Saved
from servemark.views.render.mlflow import to_run
from tests.support.saved_documents import run

KEY = re.compile(r"[\w. /:-]+")
"""Names that MLflow takes."""


@pytest.fixture(scope="module")
def runs(saved: dict[str, Saved]) -> dict[str, TrackedRun]:
    return {kind: to_run(each) for kind, each in saved.items() if not each.parts}


def test_a_load_has_its_request_its_figures_and_its_verdict(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    tracked = to_run(saved)
    assert (tracked.name, tracked.parts) == ("a", [])
    assert {key: tracked.params[key] for key in ("workload", "load.rate", "objectives.slo")} == {
        "workload": "ranking_tiny",
        "load.rate": "40.0",
        "objectives.slo": "p90:50,errors:0.01",
    }
    assert tracked.metrics["latency.p50_ms"] == value_of(saved.document, "latency.p50")
    assert tracked.metrics["throughput.goodput_per_s"] == value_of(saved.document, "throughput.goodput")
    assert tracked.metrics["errors.count"] == 1
    assert (tracked.tags["valid"], tracked.tags["objective"], tracked.tags["engine"]) == ("true", "met", "onnxruntime")
    assert tracked.tags["mlflow.note.content"].startswith("asked 40/s")
    assert json.loads(tracked.files["result.json"]) == json.loads(json.dumps(saved.document))
    assert b"<title>servemark: a</title>" in tracked.files["report.html"]


def test_an_unknown_figure_is_left_out(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    assert value_of(saved.document, "latency.p99") is None
    assert "latency.p99_ms" not in to_run(saved).metrics


def test_every_kind_fits_mlflow(runs: dict[str, TrackedRun]) -> None:
    for tracked in runs.values():
        for each in (tracked, *tracked.parts):
            assert all(map(KEY.fullmatch, [*each.params, *each.metrics, *each.tags]))
            assert all(math.isfinite(value) for value in each.metrics.values())
            assert all(isinstance(value, str) for value in [*each.params.values(), *each.tags.values()])


def test_rows_of_a_comparison_are_runs_of_their_engine(runs: dict[str, TrackedRun]) -> None:
    compared = runs["comparison"]
    assert [part.name for part in compared.parts] == ["c a", "c b"]
    assert [part.metrics["latency.p50_ms"] for part in compared.parts]
    assert "label" not in compared.tags
    assert compared.tags["kind"] == "comparison"


def test_a_document_without_rows_has_its_files(saved: dict[str, Saved]) -> None:
    found = saved["quality"]
    empty = Saved(found.name, {**found.document, "quality": None})
    assert to_run(empty).files.keys() == {"result.json", "report.html"}
