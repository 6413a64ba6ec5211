"""Files for other programs: cells without formulas, XML that can be read, runs that MLflow takes."""

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from servemark.figures.registry import value_of
from servemark.monitoring.mlflow import TrackedRun
from servemark.results.saved import Saved
from servemark.views.render.programs import to_csv, to_junit, to_run
from tests.support.saved_documents import run

KEY = re.compile(r"[\w. /:-]+")
"""Names that MLflow takes."""


def only_row(document: Any) -> dict[str, str]:
    """The one row of a suite's document with one row."""
    found = {"kind": "suite", "suite": "s", "engine": "e", "environment": {}, "rows": [document]}
    [row] = csv.DictReader(io.StringIO(to_csv([Saved("x", found)])))
    return row


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", "\n="])
def test_words_are_never_a_formula(begin: str) -> None:
    row = only_row({"workload": f'{begin}cmd|" /C calc"!A0', "p50_ms": -1.5})
    assert row["workload"].startswith("'")
    assert "\n" not in row["workload"]
    assert row["latency.p50_ms"] == "-1.5"


def test_the_names_of_columns_are_never_a_formula() -> None:
    """A suite's are the keys of its rows, which somebody else may have written."""
    columns = only_row({"workload": "ranking", '=cmd|" /C calc"!A0': 1, "two\nlines": 2}).keys()
    assert {'\'=cmd|" /C calc"!A0', "two lines"} <= columns


def test_words_that_xml_cannot_hold_are_shown_as_their_codes(tmp_path: Path) -> None:
    found = run(tmp_path / "a", workload="<a>\x00\x1b\ufffe&\"'")
    [suite] = ET.fromstring(to_junit([found]))  # noqa: S314 - our own
    assert str(suite[0].get("classname")).startswith("<a>\\u0000\\u001b\ufffd&\"'.")


def test_a_load_has_its_request_its_figures_and_its_verdict(tmp_path: Path) -> None:
    saved = run(tmp_path / "a")
    tracked = to_run(saved)
    assert (tracked.name, tracked.parts) == ("a", [])
    asked = {"workload": "ranking_tiny", "load.rate": "40.0", "objectives.slo": "p90:50,errors:0.01"}
    assert asked.items() <= tracked.params.items()
    assert tracked.metrics["latency.p50_ms"] == value_of(saved.document, "latency.p50")
    assert tracked.metrics["throughput.goodput_per_s"] == value_of(saved.document, "throughput.goodput")
    assert tracked.metrics["errors.count"] == 1
    assert value_of(saved.document, "latency.p99") is None
    assert "latency.p99_ms" not in tracked.metrics
    assert (tracked.tags["valid"], tracked.tags["objective"], tracked.tags["engine"]) == ("true", "met", "onnxruntime")
    assert tracked.tags["mlflow.note.content"].startswith("asked 40/s")
    assert json.loads(tracked.files["result.json"]) == json.loads(json.dumps(saved.document))
    assert b"<title>servemark: a</title>" in tracked.files["report.html"]


def test_every_kind_fits_mlflow_and_each_of_several_rows_is_a_run(saved: dict[str, Saved]) -> None:
    runs = {kind: to_run(each) for kind, each in saved.items() if not each.parts}
    for each in [part for whole in runs.values() for part in (whole, *whole.parts)]:
        assert all(map(KEY.fullmatch, [*each.params, *each.metrics, *each.tags]))
        assert all(math.isfinite(value) for value in each.metrics.values())
        assert all(isinstance(value, str) for value in [*each.params.values(), *each.tags.values()])
    compared: TrackedRun = runs["comparison"]
    assert [part.name for part in compared.parts] == ["c a", "c b"]
    assert all(part.metrics["latency.p50_ms"] for part in compared.parts)
    assert "label" not in compared.tags
    assert compared.tags["kind"] == "comparison"


def test_a_document_without_rows_has_its_files(saved: dict[str, Saved]) -> None:
    found = saved["quality"]
    empty = Saved(found.name, {**found.document, "quality": None})
    assert to_run(empty).files.keys() == {"result.json", "report.html"}
