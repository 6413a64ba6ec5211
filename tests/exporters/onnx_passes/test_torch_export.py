"""torch.onnx.export without its repeated work: the same rewriting, and no source of a translation read twice."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import helper
from torch.onnx._internal.exporter._registration import ONNXRegistry

from exporters.onnx_passes.torch_export import without_repeated_work
from tests.support.onnx_models import model


def test_two_slices_become_one_split_all_the_same(tmp_path: Path) -> None:
    """It is onnxscript's only rule with two outputs."""
    from onnxscript import optimizer

    axes = {"from": [0], "middle": [4], "to": [8], "axis": [1]}
    nodes = [
        helper.make_node("Relu", ["X"], ["A"]),
        helper.make_node("Slice", ["A", "middle", "to", "axis"], ["C"]),
        helper.make_node("Slice", ["A", "from", "middle", "axis"], ["B"]),
        helper.make_node("Concat", ["C", "B"], ["Y"], axis=1),
    ]
    weights = {name: np.array(values, np.int64) for name, values in axes.items()}
    onnx.save(model(nodes, {"X": ["batch", 8]}, ["Y"], weights, opset=18), tmp_path / "m.onnx")
    files = []
    for circumstances in (nullcontext, without_repeated_work):
        network = ir.load(tmp_path / "m.onnx")
        with circumstances():
            optimizer.optimize_ir(network)
        assert [node.op_type for node in network.graph] == ["Relu", "Split", "Concat"]
        files.append(ir.to_proto(network).SerializeToString())
    assert files[0] == files[1]


def test_translations_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxscript._internal import ast_utils

    def export() -> None:
        with without_repeated_work():
            torch.onnx.export(torch.nn.ReLU().eval(), (torch.ones(2, 8),), dynamo=True, verbose=False)

    export()
    read: list[object] = []
    monkeypatch.setattr(ast_utils, "get_src_and_ast", read.append)
    export()
    assert read == []


def test_translations_are_listed_anew_once_torchvision_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, torch finds none of its operators: a network with roi_align could not be exported."""
    monkeypatch.setattr(ONNXRegistry, "from_torchlib", list)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with without_repeated_work():
        before = ONNXRegistry.from_torchlib()
        monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
        after, again = ONNXRegistry.from_torchlib(), ONNXRegistry.from_torchlib()
    assert before is not after
    assert after is again


def test_a_version_with_other_insides_exports_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("onnxscript.rewriter._DEFAULT_REWRITE_RULES")
    own = ONNXRegistry.from_torchlib
    with without_repeated_work():
        assert own == ONNXRegistry.from_torchlib
