"""Suites: who belongs to them, one real one that goes on past a failure, and the page that is kept of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from exporters.pipeline import export as exporting
from servemark import workload
from servemark.documents.commands.measure import Suite
from servemark.errors import ArtifactError, OptionError
from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteRow, not_reached
from servemark.runs import suite
from servemark.views.render.markdown import to_markdown
from servemark.workload.spec import SEPARATOR
from servemark.workload.suites import BY_NAME, ai_matrix, aibench
from tests.servemark.views.snapshots import assert_unchanged
from tests.support.command_line import Servemark
from tests.support.documents import validated
from tests.support.exporting import Exports

GOOD: SuiteRow = {
    **not_reached("ncf", 611_073, 0.02132),
    "export_s": 4.4,
    "export_up_to_date": True,
    "peak_rss_mib": 822,
    "busy_share": 0.01,
    "measured_s": 5.0,
    "requests": 9_400,
    "mean_ms": 1.02,
    "p50_ms": 1.0,
    "p99_ms": 1.8,
    "inferences_per_s": 1_877.2,
    "checked": 188,
    "max_abs_error": 2e-7,
    "top1_agreement": 1.0,
    "verdict": "VALID",
}
FEW: SuiteRow = {**GOOD, "requests": 8, "mean_ms": 1_204.6, "p50_ms": None, "p99_ms": None}
SLOW: SuiteRow = {**FEW, "workload": "nmt", "verdict": "INVALID: enough_samples"}
FAILED: SuiteRow = {**not_reached("vgg16", 138_357_544, 30.94), "failure": "export: no room"}


def document(*rows: SuiteRow, published: bool = False) -> Any:
    environment = {"cpu": "A CPU", "cores": 2, "memory_gb": 25.3, "gpus": [], "os": "Linux", "python": "3.11.7"}
    environment |= {"git_commit": "abc", "git_dirty": True, "packages": {"torch": "2"}}
    head: dict[str, Any] = {
        "kind": "suite",
        "suite": "all",
        "engine": "onnxruntime",
        "concurrency": 2,
        "duration_s": 5.0,
        "warmup_s": 1.0,
    }
    head |= {"published": published, "partial": False}
    head["command"] = ["servemark", "suite", "all", "--only", "din"]
    return {**head, "created": "2026-11-20T12:00:00+00:00", "environment": environment, "rows": rows}


def test_members() -> None:
    names = {name: {w.name for w in suite.members(name)} for name in ("aibench", "ai-matrix", "subset", "all")}
    assert names["subset"] == set(aibench.SUBSET)
    assert len(names["aibench"]) == 17
    assert names["all"] == set(workload.names())
    variants = {w.name for w in workload.workloads().values() if any(s.endswith(suite.VARIANT) for s in w.suites)}
    assert "ranking_teacher" in variants
    assert not variants & (names["aibench"] | names["ai-matrix"])
    with pytest.raises(OptionError, match="one of: aibench, ai-matrix, subset, all"):
        suite.members("mlperf")


def test_what_another_suite_names_is_not_one_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, listed = workload.get("ranking"), workload.get("ncf")
    monkeypatch.setattr(suite, "own", lambda: {"mine": mine, BY_NAME["today"][1][0].replace("/", SEPARATOR): listed})
    assert suite.members("own") == [mine]


def test_a_suite_is_shown_as_the_snapshot_has_it() -> None:
    published: list[SuiteRow] = [
        {**GOOD, "workload": name, "precision": precision, "batch_size": batch}
        for name, precision, batch in (
            ("resnet50", "int8", 64),
            ("resnet50", "fp32", 16),
            ("mask_rcnn", "fp32", 8),
            ("din", "fp32", 1024),
            ("nmt", "fp32", 256),
            ("ssd300", "fp32", 8),
            ("ssd300", "int8", 16),
        )
    ]
    failed: list[SuiteRow] = [{**FAILED, "batch_size": batch} for batch in (16, 32, 64)]
    documents = {
        "good, too few requests, and failed": document(GOOD, SLOW, FAILED),
        "all is well": document({**GOOD, "export_up_to_date": False}),
        "beside other work": document(GOOD, {**SLOW, "busy_share": 0.4}),
        "what is not known of a model of one's own is no zero": document({**GOOD, "parameters": None, "gflops": None}),
        "AI Matrix's batches, one export of all": document(*published, FAILED, published=True),
        "one export that failed, of three batches": document(*failed, published=True),
    }
    pages = {name: to_markdown([Saved("suite", found)]) for name, found in documents.items()}
    pages = {name: page.partition("#### Environment")[0] for name, page in pages.items()}
    assert_unchanged("suite_pages", "\n".join(f"== {name}\n{page}" for name, page in pages.items()))


def test_published_cases_are_those_that_the_engine_has() -> None:
    chosen = suite.members("ai-matrix")
    assert {w.name for w in chosen} == set(ai_matrix.MACRO)
    every = suite.published_cases(chosen, "onnxruntime", [])
    assert {each.precision for each in every} == {"fp32", "fp16", "int8"}
    assert {each.batch for each in every if each.workload.name == "nmt"} == {64, 128, 256}
    assert all(each.batch <= each.workload.max_batch for each in every)
    assert {each.precision for each in suite.published_cases(chosen, "pytorch", [])} == {"fp32", "fp16"}
    assert {each.precision for each in suite.published_cases(chosen, "pytorch", ["fp32"])} == {"fp32"}
    with pytest.raises(OptionError, match="has no export in int8"):
        suite.published_cases(chosen, "pytorch", ["int8"])
    with pytest.raises(OptionError, match="of the suite ai-matrix"):
        planned("aibench", "pytorch", published=True)


def planned(name: str, engine: str, **chosen: Any) -> suite.Plan:
    """A plan of one request in flight, of models that nobody has exported."""
    return suite.plan(Suite(name=name, engine=engine, model_repository=Path("nowhere"), concurrency=1, **chosen))


def test_some_of_a_suite() -> None:
    cases = planned("ai-matrix", "onnxruntime", published=True, only=["din", "resnet50"], precision=["fp32"]).cases
    assert [str(case) for case in cases] == [f"din -b {n}" for n in (256, 512, 1024)] + [
        f"resnet50 -b {n}" for n in (16, 32, 64)
    ]
    with pytest.raises(OptionError, match="ai-matrix's workload 'ranking' is unknown"):
        planned("ai-matrix", "onnxruntime", only=["ranking"])
    with pytest.raises(OptionError, match="runs din in fp32 alone"):
        planned("ai-matrix", "onnxruntime", published=True, only=["din"], precision=["int8"])


def test_a_plan_says_what_it_takes() -> None:
    found = planned("ai-matrix", "onnxruntime", published=True, only=["resnet50"], precision=["fp32"])
    gflops = (workload.get("resnet50").flops or 0) / 1e9
    costs = found.costs_s(gflops * 1e9)  # a request of so many samples takes so many seconds
    assert costs == pytest.approx([15 + 2 * 16 + 30, 15 + 2 * 32, 15 + 2 * 64])  # one export
    *lines, last = found.lines(gflops * 1e9)
    assert lines[0] == f"resnet50 -b 16, export first: {16 * gflops:,.1f} GFLOPs a request, about 77 s"
    assert last == "models: 1, exports: 1, runs: 3; about 5.0 min, or more"
    assert found.costs_s(1e18) == pytest.approx([51, 21, 21])  # warm-up and interval have a least length


def test_a_dry_run_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servemark: Servemark) -> None:
    monkeypatch.setattr(suite, "SIDE", 64)
    line = ["suite", "subset", "--out", str(tmp_path), "--model-repository", str(tmp_path), "--dry-run"]
    shown = servemark(*line).out.splitlines()
    assert [each.split(",")[0] for each in shown[:-1]] == sorted(aibench.SUBSET)
    assert not list(tmp_path.iterdir())
    assert "no JSON" in servemark(*line, "--json").err


def test_an_export_that_failed_is_not_tried_again_for_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(task: Any, _: float) -> None:
        asked.append(task.workload)
        raise ArtifactError("no room", fix="make some")

    monkeypatch.setattr(exporting, "export_isolated", refuse)
    monkeypatch.setattr(suite, "measured_flops_per_s", lambda: 1e10)
    chosen = planned("ai-matrix", "onnxruntime", published=True, precision=["fp32"], only=["resnet50"], out=tmp_path)
    _, found = suite.run_suite(chosen)
    assert asked == ["resnet50"]
    assert [(row["batch_size"], row["failure"]) for row in found["rows"]] == [
        (batch, "export: no room") for batch in (16, 32, 64)
    ]


def test_a_line_for_each_outcome() -> None:
    assert suite.line(GOOD) == "VALID  9,400 requests, 1,877 inferences/s"
    assert suite.line(FAILED) == "FAILED  export: no room"


def test_a_suite_loads_what_is_exported_and_goes_on_past_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servemark: Servemark, exported: Exports
) -> None:
    monkeypatch.setattr(suite, "SIDE", 64)
    exported("ncf_tiny", "onnxruntime")
    tiny, unknown = workload.get("ncf_tiny"), dataclasses.replace(workload.get("ncf_tiny"), name="no_such_model")
    monkeypatch.setattr(suite, "members", lambda _: [unknown, tiny])
    folders = ["--out", str(tmp_path), "--model-repository", str(exported.repository)]
    code, out, _ = servemark("suite", "subset", "--duration", "1", "--warmup", "0.2", *folders, "--json")
    assert code == 2
    shown = json.loads(out)
    (directory,) = tmp_path.glob("*suite-subset*")
    assert validated(shown) == json.loads((directory / "suite.json").read_text())
    failed, good = shown["rows"]
    assert "no_such_model" in str(failed["failure"])
    assert failed["verdict"] is None
    assert good["failure"] is None
    assert good["export_up_to_date"]
    assert good["measured_s"] == pytest.approx(1)
    assert good["requests"] is not None
    assert good["requests"] > 20
    assert good["checked"]
    assert good["top1_agreement"] == 1
    assert (directory / "suite.md").read_text() == to_markdown([Saved(directory.name, shown)])
