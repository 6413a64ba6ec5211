"""The engine that an import suggests can be used: it is installed, and its converter reads the file."""

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from exporters.importing import other_engine as suggestion
from servemark.errors import ArtifactError
from servemark.workload import Tensor, Workload
from servemark.workload.spec import Source
from tests.support.own_models import OPEN, dense, from_x_to_y


def imported(path: Path, engine: str, *, datatype: str = "FP32") -> Workload:
    return Workload(
        name="mine",
        title="mine",
        inputs=(Tensor("x", datatype, (6,)),),
        outputs=(Tensor("y", "FP32", (4,)),),
        max_batch=8,
        build=lambda: pytest.fail("nothing is built"),
        samples=lambda _: iter(()),
        source=Source(engine, "a file", path.parent, path.name, "", {}),
    )


def classical(path: Path) -> Path:
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 6)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return from_x_to_y(path, [node], y=(OPEN, 1), opset_imports=opsets)


@pytest.mark.parametrize(
    ("engine", "make", "datatype", "other"),
    [
        ("onnxruntime", dense, "FP32", "openvino"),
        ("onnxruntime", classical, "FP32", None),
        ("onnxruntime", dense, "BYTES", None),
        ("pytorch", dense, "FP32", "openvino"),
    ],
)
def test_the_engine_takes_the_file(tmp_path: Path, engine: str, make: Any, datatype: str, other: str | None) -> None:
    path = make(tmp_path / "m.onnx")
    assert suggestion.other_engine(imported(path, engine, datatype=datatype), path) == other


def test_an_engine_that_is_not_installed_is_not_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(engine: str, _: str) -> None:
        if engine == "openvino":
            raise ArtifactError("this export needs the package openvino", fix="")

    monkeypatch.setattr(suggestion, "require_exporter", lacking)
    path = dense(tmp_path / "m.onnx")
    assert suggestion.other_engine(imported(path, "onnxruntime"), path) is None
    assert suggestion.other_engine(imported(path, "pytorch"), path) == "onnxruntime"
