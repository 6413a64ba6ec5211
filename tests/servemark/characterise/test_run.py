"""A characterisation as a whole: complete after each step, past failures, and resumed where it was left."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from servemark.campaign import asked_of
from servemark.characterise import run
from servemark.characterise.analysis import failure_of
from servemark.characterise.tables import every
from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.profiling import measure
from servemark.profiling.measure import Order
from servemark.results import directory as results
from servemark.results.directory import read_as
from servemark.results.schema.header import reason_of
from servemark.results.schema.suite import Characterisation
from servemark.runs import suite
from servemark.workload import get
from tests.support.characterised import NAMES, document, options
from tests.support.command_line import Servemark
from tests.support.documents import validated
from tests.support.in_process import call_here

TINY = ("ncf_tiny", "ranking_tiny", "spatial_transformer_tiny", "wgan_tiny")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "members", lambda _: [get(name) for name in TINY])
    call_here(monkeypatch)
    monkeypatch.setattr(measure, "ROUNDS", (3, 3))
    monkeypatch.setattr(measure, "SECONDS", 0.0)


def test_a_tiny_suite_is_measured_and_told(
    tiny: None,  # noqa: ARG001 - a fixture
    tmp_path: Path,
    exported: Any,
    servemark: Servemark,
) -> None:
    for name in TINY:
        exported(name, "onnxruntime")
    asked = ["characterise", "own", "--engines", "onnxruntime", "--size", "1", "--starts", "0", "--batches", "4"]
    asked += ["--duration", "0.1", "--seeds", "1", "--no-ceilings", "--json", "--report"]
    code, out, _ = servemark(*asked, "--out", str(tmp_path), "--model-repository", str(exported.repository))
    shown = validated(json.loads(out))
    assert code == 0
    [folder] = tmp_path.glob("*-characterise-own")
    assert shown == read_as(folder, Characterisation)
    assert [row["workload"] for row in shown["rows"]] == sorted(TINY, key=lambda name: get(name).flops or 0)
    assert shown["prediction"]["contexts"] == ["onnxruntime, batch 4"]
    assert len(shown["analysis"]["chosen"]) == 1
    assert not shown["partial"]
    assert (folder / "report.html").is_file()
    code, _, err = servemark("characterise", "aibench", "--resume", str(folder))
    assert (code, "is of the suite own, not aibench" in err) == (3, True)
    assert (folder / "figure_5.csv").read_text().startswith("workload,engine,convolution,gemm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "export_where_needed", lambda *_: None)

    def no_server(*_: Any, **__: Any) -> None:
        raise ServerError("no server")

    monkeypatch.setattr(run, "load_apart", no_server)
    return tmp_path


def test_a_failure_is_a_row_and_going_on_tries_it_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(_: Any, order: Any, *__: Any, timeout_s: float) -> Any:  # noqa: ARG001 - as it is called
        asked.append(f"{order.workload} {order.engine}")
        raise ArtifactError("it is damaged", fix="mend it")

    monkeypatch.setattr(run, "apart", refuse)
    document = run.begin("aibench", options(starts=1))
    run.Characterised(document, folder, folder).run(ceilings=False)
    saved = read_as(folder, Characterisation)
    assert len(asked) == 2 * len(NAMES)
    assert {failure_of(each) for row in saved["rows"] for each in row["engines"]} == {"it is damaged"}
    assert "0 workloads ran" in str(reason_of(saved, "analysis"))
    again = results.typed(asked_of(folder), folder, Characterisation)
    run.Characterised(again, folder, folder, resume=True).run(ceilings=False)
    assert len(asked) == 4 * len(NAMES)


def test_an_engine_s_own_exception_is_a_reason(tmp_path: Path) -> None:
    def fail(_: Any) -> Any:
        raise type("NoSuchFile", (Exception,), {})("the file went\naway")

    found = run._timed(fail, Order("ncf_tiny", "onnxruntime", tmp_path, batch_size=4), 1.0)
    assert (found["ms"], found["ms_reason"]) == (None, "the file went")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 6}, "leaves none to be predicted"),
        ({"engines": "onnxruntime:threads=2"}, "has options"),
        ({"engines": "onnxrumtime"}, "onnxrumtime"),
        ({"only": ("resnet5",)}, "resnet5"),
        ({"batches": "1,x"}, "--batches"),
    ],
)
def test_bad_options(changes: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        run.begin("aibench", options(**changes))


def test_data_are_plain_numbers() -> None:
    found = every(document())
    rows = [*csv.DictReader(io.StringIO(found["table_5"].to_csv()))]
    assert {row["workload"] for row in rows} == {*NAMES}
    assert float(rows[0]["CoV of p50"]) == pytest.approx(0.0129 / 1.015, rel=0.01)
    assert rows[0]["CoV of energy"] == ""
    shares = [[float(value or 0) for value in row[2:]] for row in found["figure_5"].rows]
    assert [sum(row) for row in shares] == pytest.approx([1] * len(shares))
    hotspots = {row[0]: row[1:] for row in found["figure_6"].rows}
    assert hotspots["all of them"] == [6, 6, 6, 0, 3]
    ranking = next(row for row in found["table_6"].rows if row[0] == "ranking")
    assert ranking[4:] == [32.0, 40.0, 0.47]
