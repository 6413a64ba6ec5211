"""The support matrix: made from its record, complete, and true of a sample."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import exporters
from exporters.pipeline.registry import exporter
from servemark import workload
from servemark.errors import ArtifactError
from servemark.machine.environment import int8_overflows
from servemark.machine.own_process import Ended
from servemark.workload.imported import MODELS
from tests.support.exporting import Exports
from tools import support_matrix
from tools.support_matrix import MARKDOWN, RECORD, Cell, attempt, render

SAMPLE = [
    ("din", "openvino", "fp16"),
    ("ranking", "openvino", "int8"),
    ("ranking", "tensorflow", "fp32"),
    ("vgg16", "openvino", "int8"),
]
"""Cheap ones, one of them refused: random weights of the tiny variant do not survive 8 bits."""


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(RECORD.read_text())


def test_page_is_made_from_the_record(record: Any) -> None:
    assert MARKDOWN.read_text() == render(record), "write it with: python -m tools.support_matrix"


def test_every_workload_engine_and_precision_is_listed(record: Any) -> None:
    listed = {
        (cell["workload"], cell["engine"], cell["precision"]) for cell in record["cells"] if "/" not in cell["workload"]
    }
    assert listed == {
        (name, engine, precision)
        for name in workload.names()
        for engine in exporters.engines()
        for precision in exporters.precisions(engine)
    }, "try what is new with: python -m tools.support_matrix"


def test_a_workload_without_a_tiny_variant_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["support_matrix", "--size", "tiny", "--workload", "ranking_teacher"])
    with pytest.raises(SystemExit):
        support_matrix.main()
    assert "no tiny variant has ranking_teacher: --size full tries it" in capsys.readouterr().err


def test_what_is_new_is_listed_as_not_tried(record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision that an exporter has learnt is in both files before anybody has tried it; the others stay."""
    known = [cell for cell in record["cells"] if cell["precision"] != "fp8"]
    files = tmp_path / "support.json", tmp_path / "support.md"
    monkeypatch.setattr(support_matrix, "RECORD", files[0])
    monkeypatch.setattr(support_matrix, "MARKDOWN", files[1])
    files[0].write_text(json.dumps({**record, "cells": known}))
    support_matrix.Record("tiny").write()
    written = json.loads(files[0].read_text())
    assert [cell for cell in written["cells"] if cell["precision"] != "fp8"] == known
    (cell,) = [
        c for c in written["cells"] if (c["workload"], c["engine"], c["precision"]) == ("din", "tensorrt", "fp8")
    ]
    assert cell["ok"] is None
    assert files[1].read_text() == render(written)


@pytest.mark.parametrize(
    ("precision", "overflows", "words", "ok"),
    [
        ("int8", False, "logits at batch 1 differs from eager PyTorch", False),
        ("int8", True, "logits at batch 1 differs from eager PyTorch", None),
        ("int8", True, "OpenVINO could quantise 7% of the weights", False),
        ("fp16", True, "logits at batch 1 differs from eager PyTorch", False),
        ("bf16", True, "this CPU has no bf16 instructions", None),
    ],
)
def test_what_only_this_cpu_cannot_do_stays_untried(
    precision: str, overflows: bool, words: str, ok: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ArtifactError(words)

    monkeypatch.setattr(exporters, "export", refuse)
    monkeypatch.setattr(support_matrix, "int8_overflows", lambda: overflows)
    found = attempt("din_tiny", "openvino", precision, tmp_path)
    assert (found["ok"], found["kind"] == "device") == (ok, ok is None)


def test_a_precision_that_an_engine_refuses_is_on_the_page() -> None:
    page = MARKDOWN.read_text()
    for engine in exporters.engines():
        for precision, reason in exporter(engine).REFUSED.items():
            assert f"- No {precision} on {engine}: {reason}.\n" in page


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ([{"ok": True, "size": "full"}, {"ok": True, "size": "tiny"}], "fp32 fp16\\*"),
        (
            [{"ok": True, "size": "full"}, {"ok": False, "size": "full", "kind": "agreement", "reason": "x"}],
            "fp32, not fp16",
        ),
        ([{"ok": False, "size": "full", "kind": "run"}, {"ok": None}], "not fp32 [1]"),
        ([{"ok": None}], "-"),
    ],
)
def test_a_cell_says_what_runs_and_what_does_not(found: list[dict[str, Any]], shown: str) -> None:
    cells = [
        {"workload": "din", "engine": "openvino", "precision": precision, "size": "full", "reason": "", **cell}
        for precision, cell in zip(("fp32", "fp16"), found, strict=False)
    ]
    others = [{**cells[0], "workload": "ranking", "ok": True}]
    page = render({"created": "today", "cpu": "", "python": "", "packages": {}, "cells": [*cells, *others]})
    assert f"| din | {shown} |" in page


def test_a_refusal_has_its_reason_and_a_success_its_figures(record: Any) -> None:
    for cell in record["cells"]:
        assert cell["size"] in {"tiny", "full"}
        if cell.get("built"):
            assert cell["built"]["layers"] > 10
            assert cell["built"]["plan_mb"] > 0
        elif cell["ok"]:
            assert 0 <= cell["top1_samples"] <= cell["samples"] <= 16
            assert cell["seconds"] > 0
        else:
            assert cell["kind"] in {"agreement", "conversion", "device", "ended", "other", "run", "untried"}
            assert cell["reason"]


def test_tensorflow_and_openvino_run_what_the_project_promises(record: Any) -> None:
    runs = {
        (cell["workload"], cell["engine"]) for cell in record["cells"] if cell["precision"] == "fp32" and cell["ok"]
    }
    for engine, fewest in (("openvino", 25), ("onnxruntime", 25), ("tensorflow", 22)):
        assert sum((name, engine) in runs for name in workload.names() if name != "nmt_greedy") >= fewest


@pytest.mark.parametrize(("name", "engine", "precision"), SAMPLE)
def test_a_sample_behaves_as_the_page_says(
    record: Any, exported: Exports, tmp_path: Path, name: str, engine: str, precision: str
) -> None:
    wanted = (name, engine, precision)
    (cell,) = [c for c in record["cells"] if (c["workload"], c["engine"], c["precision"]) == wanted]
    if not cell["ok"] and cell["size"] == "full":
        pytest.skip("refused at full size, which takes too long here")
    if precision == "int8" and int8_overflows():
        pytest.skip("this CPU has no VNNI, and sums pairs of products in 16 bits")
    support_matrix._link(f"{name}_tiny", exported(f"{name}_tiny", "onnxruntime").repository, tmp_path)
    found = attempt(f"{name}_tiny", engine, precision, tmp_path)
    assert (found["ok"], found.get("kind")) == (cell["ok"], cell.get("kind"))


def test_models_of_libraries_are_counted_and_those_refused_are_named() -> None:
    def cell(workload: str, engine: str, **more: Any) -> dict[str, Any]:
        return {"workload": workload, "engine": engine, "precision": "fp32", "size": "tiny", "ok": True, **more}

    cells = [
        cell("din", "openvino"),
        cell("timm/resnet18", "openvino"),
        cell("timm/tinynet_e", "openvino", ok=False, kind="conversion", reason="no Einsum"),
        cell("timm/tinynet_e", "tensorrt", ok=None, kind="device", reason="no GPU"),
        cell("transformers/bert", "tensorrt_rtx", built={}),
    ]
    page = render({"created": "today", "cpu": "", "python": "", "packages": {}, "cells": cells})
    assert (
        "| library | openvino fp32 | tensorrt_rtx fp32 |\n"
        "| --- | --- | --- |\n"
        "| timm | 1 of 2 | - |\n"
        "| transformers | - | built: 1 of 1 |\n"
        "\n"
        "- timm/tinynet_e in openvino fp32: no Einsum.\n"
    ) in page
    assert "| timm/" not in page


@pytest.mark.parametrize(
    ("model", "engines"),
    [
        ("roberta", {"openvino": "fp32", "tensorflow": "fp32", "tensorrt_rtx": "fp16"}),
        # for the engines these are other layers, which cost a trace of ten seconds
        pytest.param("deberta", {"tensorflow": "fp32"}, marks=pytest.mark.slow),
        pytest.param("segformer", {"openvino": "fp32"}, marks=pytest.mark.slow),
    ],
)
def test_a_small_model_of_transformers_is_written_and_exported(
    model: str, engines: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODELS, "")  # it is put back
    for engine, precision in engines.items():
        for package in ("transformers", *exporter(engine).PACKAGES):
            pytest.importorskip(package)
        found = attempt(f"transformers/{model}", engine, precision, tmp_path / "repository")
        assert found["ok"], found
        assert found["built"]["layers"] > 0 if engine == "tensorrt_rtx" else found["max_rel"] < 1e-4


def test_an_onnx_entry_that_is_there_is_taken_into_a_repository_that_is_not(tmp_path: Path) -> None:
    ours = tmp_path / "made" / "ranking_onnxruntime"
    ours.mkdir(parents=True)
    support_matrix._link("ranking", ours.parent, tmp_path / "repository")
    assert (tmp_path / "repository" / "ranking_onnxruntime").resolve() == ours


def test_a_try_whose_process_ends_is_told_and_the_next_one_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    class Process:
        def __enter__(self) -> "Process":
            begun.append(1)
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, *_: object, timeout_s: float) -> dict[str, Any]:
            if len(begun) == 1:
                raise Ended(f"not done within {timeout_s:g} s")
            return {"ok": True}

    monkeypatch.setattr(support_matrix, "OwnProcess", Process)
    names = ["din", "ranking", "timm/a", "timm/a", "timm/b"]
    cells = [Cell(name, "onnxruntime", "fp32") for name in names]
    found = [each for _, each in support_matrix._tries(cells, "tiny", tmp_path, 9.0)]
    assert found == [{"ok": False, "kind": "ended", "reason": "not done within 9 s"}, *[{"ok": True}] * 4]
    assert len(begun) == 4
