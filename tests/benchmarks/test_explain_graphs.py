"""Causes planted in a graph: what they add, and that the model's own answers stay."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.explain import graphs


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A layer that answers 0, whatever comes."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    answer = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])
    weights = numpy_helper.from_array(np.zeros((3, 2), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "layer", [given], [answer], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def changed(model: Path, change: graphs.Change) -> onnxruntime.InferenceSession:
    graphs.write_changed(model, change, model.with_name("changed.onnx"))
    return onnxruntime.InferenceSession(model.with_name("changed.onnx"))


def test_a_large_output_has_a_row_for_each_sample(model: Path) -> None:
    answer, large = changed(model, graphs.large_output(1000)).run(None, {"x": np.ones((4, 3), np.float32)})
    assert answer.tolist() == [[0, 0]] * 4
    assert large.shape == (4, 1000)


def test_one_execution_in_twenty_is_slow(model: Path) -> None:
    """A slow execution adds a number that is too small to be seen beside any other."""
    session = changed(model, graphs.slow_at_times(1e-6))
    answers = np.array([session.run(["y"], {"x": np.ones((1, 3), np.float32)})[0] for _ in range(1000)])
    assert np.abs(answers).max() < 1e-30
    assert 15 <= (answers[:, 0, 0] != 0).sum() <= 110
