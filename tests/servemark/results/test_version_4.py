"""Results of schema 4 are read as results of schema 5, with the same figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from servemark.cli.rerun import request_of
from servemark.errors import ResultError
from servemark.results import directory
from servemark.results.saved import read_saved
from servemark.results.schema.details import QualityScore
from servemark.results.schema.version_4 import converted
from servemark.views.render.terminal import show
from tests.support import saved_documents
from tests.support.documents import filled, validated

RUN, MLPERF = (Path(__file__).with_name(f"version_4_{kind}.json") for kind in ("run", "mlperf"))
SINCE = {"server.requests"}
"""Figures that schema 4 did not have."""
WITHOUT_FIGURES = (
    "saved_comparison", "history", "kernels", "quality", "calibration", "characterisation", "synthesis", "profile",
)  # fmt: skip
ZERO = {"clock.refused", "clock.steps"}
"""Figures that it had as 0 where no answer came over a network."""


def test_its_figures_are_those_of_the_same_run_today(tmp_path: Path) -> None:
    old: Any = converted(json.loads(RUN.read_text()))
    new = saved_documents.run(tmp_path / "run", saved_documents.STAGES).document
    assert old["figures"].keys() == new["figures"].keys() - SINCE
    for tag, found in old["figures"].items():
        if tag in ZERO:
            continue
        assert found["value"] == pytest.approx(new["figures"][tag]["value"]), tag
        assert found.get("ci95") == pytest.approx(new["figures"][tag].get("ci95")), tag
        assert found["unit"] == new["figures"][tag]["unit"], tag
        assert found["value"] is not None or found["reason"] == new["figures"][tag]["reason"], tag
    assert old["details"]["errors"] == new["details"]["errors"]
    assert [stage["figures"].keys() for stage in old["stages"]] == [stage["figures"].keys() for stage in new["stages"]]
    assert "metrics" not in validated(old)


def test_it_is_read_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "result.json").write_bytes(RUN.read_bytes())
    saved = read_saved(tmp_path)
    assert saved.document["schema_version"] == 5
    header = directory.read_begun(tmp_path / "result.json")
    assert request_of(header, tmp_path / "result.json").workload == header["workload"]
    show(saved.document)
    assert "scheduled 40/s, 99.75 % answered: p95 60 ms, VALID" in capsys.readouterr().out


@pytest.mark.parametrize("score", [None, filled(QualityScore, metric="top1")])
def test_what_mlperf_measured_here_has_tags_too(score: QualityScore | None, tmp_path: Path) -> None:
    document = json.loads(MLPERF.read_text())
    document["metrics"]["correctness"] |= {"quality": score} if score else {}
    (tmp_path / "result.json").write_text(json.dumps(document))
    found = read_saved(tmp_path).document
    assert found["details"]["errors"] == {"by_kind": {"timeout": 1}, "messages": {"timeout": ["no answer"]}}
    assert found["details"].get("quality") == score
    assert {"latency.p90", "requests.answered", "errors.count", "cpu.other_share"} <= found["figures"].keys()


def test_kinds_without_a_run_s_figures_are_read_as_they_are(tmp_path: Path) -> None:
    documents = saved_documents.documents(tmp_path)
    for kind in WITHOUT_FIGURES:
        document = json.loads(json.dumps(documents[kind].document))
        (tmp_path / "result.json").write_text(json.dumps({**document, "schema_version": 4}))
        assert read_saved(tmp_path).document == document, kind


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    document = json.loads(RUN.read_text())
    del document["metrics"]["errors"]
    (tmp_path / "result.json").write_text(json.dumps(document))
    with pytest.raises(ResultError, match="is damaged"):
        directory.read(tmp_path)


def test_an_engines_search_for_the_highest_rate_is_a_group() -> None:
    kept = {"rate": 410.0, "rounds": [410.0], "directory": "max-rate-a"}
    found: dict[str, Any] = {**kept, "searched_rate": 400.0, "ci95": [390, 420], "confirmed": True, "above": 430.0}
    found |= {"bottleneck": "server", "reason": "met", "rates": [], "points": []}
    none: dict[str, Any] = {"rate": None, "rate_reason": "too slow", "searched_rate": None, "directory": "b"}
    rows = [{"label": label, "max_rate": each} for label, each in (("a", found), ("b", none), ("c", None))]
    a, b, c = (row["max_rate"] for row in converted({"kind": "comparison", "rows": rows})["rows"])
    assert {key: a[key] for key in a if key != "search"} == kept
    assert (a["search"]["rate"], a["search"]["confirmed"]) == (400.0, True)
    assert (b["rate_reason"], b["search"]) == ("too slow", None)
    assert c is None
