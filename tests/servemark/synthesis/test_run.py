"""`servemark synthesise` as a whole: the file is a workload, the document tells the match, and times stand beside."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exporters
from servemark.results.directory import read_as
from servemark.results.schema.synthesis import Synthesis
from servemark.synthesis import run
from servemark.workload import get
from tests.support.command_line import Servemark
from tests.support.documents import validated


def here(call: Any, *arguments: Any, timeout_s: float) -> Any:  # noqa: ARG001 - as it is called
    """Measure in this process."""
    return call(*arguments)


def export_here(names: Sequence[str], engine: str, repository: Path, precision: str) -> None:
    """Export in this process."""
    for name in names:
        exporters.export(get(name), engine, repository, precision=precision)


def test_a_network_of_tiny_ones_is_made_and_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exported: Any, servemark: Servemark
) -> None:
    monkeypatch.setattr(run, "YARDSTICKS", ())
    monkeypatch.setattr(run, "ROUNDS_S", 0.1)
    monkeypatch.setattr(run, "make", partial(run.make, steps=300))
    monkeypatch.setattr(run, "apart", here)
    monkeypatch.setattr(run, "export_where_needed", export_here)
    for name in ("vgg16_tiny", "resnet50_tiny", "wgan_tiny"):
        exported(name, "onnxruntime")
    asked = ["synthesise", "vgg16_tiny", "resnet50_tiny", "--name", "made", "--engines", "onnxruntime"]
    asked += ["--batches", "2,4", "--held-out", "wgan_tiny", "--json", "--report", "--out", str(tmp_path)]
    code, out, err = servemark(*asked, "--model-repository", str(exported.repository))
    assert code == 0, err
    shown = validated(json.loads(out))
    [folder] = tmp_path.glob("*-synthesis-made")
    assert shown == read_as(folder, Synthesis)
    assert [each["batch_size"] for each in shown["contexts"]] == [1, 2, 4]
    assert all(each["predicted_ms"] > 0 and each["measured_ms"] > 0 for each in shown["contexts"])
    # the rest of a tiny network's time lies between its operators
    assert 0.1 < sum(each["ours"] for each in shown["shares"]) <= 1.001
    assert -1 <= shown["held_out"][0]["rank_correlation"] <= 1
    assert [each["name"] for each in shown["candidates"]] == ["made"]
    page = (folder / "report.html").read_text()
    assert "Distributions of the layers" in page
    assert "Workloads held out" in page
    code, out, err = servemark("show", str(folder))
    assert code == 0, err
    assert "made: mean distance" in out


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        (["reconstruction3d_tiny"], [], "does not have"),
        (["vgg16_tiny"], ["--name", "vgg16"], "built-in workload"),
        (["vgg16_tiny"], ["--held-out", "vgg16_tiny", "--engines", "onnxruntime"], "given and held out"),
        (["vgg16_tiny"], ["--held-out", "wgan_tiny"], "--engines"),
    ],
)
def test_what_cannot_be_made_is_refused(
    given: list[str], more: list[str], says: str, servemark: Servemark, tmp_path: Path
) -> None:
    code, _, err = servemark("synthesise", *given, *more, "--out", str(tmp_path))
    assert code == 3
    assert says in err
    assert not [*tmp_path.iterdir()]
