"""Model files as a user brings them: a small network whose answers are known, in ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS: npt.NDArray[np.float32] = np.random.default_rng(3).normal(size=(6, 4)).astype(np.float32)
TABLE: npt.NDArray[np.float32] = np.random.default_rng(4).normal(size=(50, 6)).astype(np.float32)
OPEN = "n"
"""A size that the file leaves open."""


def dense(path: Path, *sizes: int | str, **model: Any) -> Path:
    """Write y = relu(x W), x of these sizes: the batch and 6 unless others are given."""
    shape = sizes or (OPEN, 6)
    nodes = [helper.make_node("MatMul", ["x", "W"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    return from_x_to_y(path, nodes, shape, (*shape[:-1], 4), **model)


def lookup(path: Path, **model: Any) -> Path:
    """Write a table of 50 rows, looked up by 3 ids and averaged: what lies beyond it makes ONNX Runtime fail."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Gather", ["TABLE", "whole"], ["rows"]),
        helper.make_node("ReduceMean", ["rows", "axes"], ["y"], keepdims=0),
    ]
    ports = [("ids", TensorProto.INT32, (OPEN, 3))], [("y", TensorProto.FLOAT, (OPEN, 6))]
    return save(path, nodes, *ports, **model)


def texts(path: Path) -> Path:
    """Write y = the number of a word, 1 or 2, and 0 for any other; `said` is the word again."""
    keys: dict[str, Any] = {"keys_strings": ["one", "zw\u00f6lf"], "values_int64s": [1, 2], "default_int64": 0}
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **keys),
        helper.make_node("Identity", ["x"], ["said"]),
    ]
    shape, word = (OPEN, 2), TensorProto.STRING
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    outputs = [("y", TensorProto.INT64, shape), ("said", word, shape)]
    return save(path, nodes, [("x", word, shape)], outputs, opset_imports=opsets)


def from_x_to_y(
    path: Path, nodes: list[Any], x: tuple[Any, ...] = (OPEN, 6), y: tuple[Any, ...] | None = None, **model: Any
) -> Path:
    """Write a file with one input and one output of FP32, of the same sizes unless those of y are given."""
    return save(path, nodes, [("x", TensorProto.FLOAT, x)], [("y", TensorProto.FLOAT, y or x)], **model)


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], **model: Any) -> Path:
    """Write a file of these nodes; tensors are (name, type, sizes)."""
    constants: dict[str, npt.NDArray[Any]] = {"W": WEIGHTS, "TABLE": TABLE, "axes": np.array([1], np.int64)}
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "own",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if name in used],
    )
    settings: dict[str, Any] = {"opset_imports": [helper.make_opsetid("", 18)], "ir_version": 8} | model
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, **settings), path)
    return path
