"""The operators of an ONNX file as kernels: each kind of node with the sizes that it runs with."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from kernels.tracing.calls import Call
from kernels.tracing.onnx_calls import calls_of
from tests.support.onnx_models import model

IMAGE, ROWS, STEPS = (2, 3, 8, 8), (2, 4, 6), (5, 2, 6)
Nodes = list[onnx.NodeProto]


def node(operator: str, *inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, ["x", *inputs], [output], **attributes)


def calls(
    folder: Path, nodes: Nodes, shape: tuple[int, ...], weights: dict[str, tuple[int, ...]], kind: str = "f4"
) -> list[Call]:
    """Return the calls of one run of these nodes, with weights of these sizes."""
    rng = np.random.default_rng(0)
    made = {name: rng.random(size, np.float32) for name, size in weights.items()}
    x = rng.integers(0, 2, shape).astype(kind)
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    whole = model(nodes, {"x": ["n", *shape[1:]]}, nodes[-1].output, made, opset=20, dtype=dtype)
    onnx.save(whole, folder / "m.onnx")
    return calls_of(folder / "m.onnx", {"x": x})


@pytest.mark.parametrize(
    ("found", "shape", "weights", "kernel"),
    [
        (
            node("Conv", "w", strides=[2, 2], pads=[1, 1, 1, 1]),
            IMAGE,
            {"w": (4, 3, 3, 3)},
            {"c": 3, "k": 4, "size": [8, 8], "filter": [3, 3], "stride": [2, 2], "padding": [1, 1]},
        ),
        (node("Conv", "w", auto_pad="SAME_UPPER"), IMAGE, {"w": (4, 3, 3, 3)}, {"padding": [1, 1]}),
        (node("ConvTranspose", "w"), IMAGE, {"w": (3, 4, 2, 2)}, {"c": 4, "k": 3, "direction": "backward_data"}),
        (node("MatMul", "w"), ROWS, {"w": (6, 5)}, {"m": 5, "n": 8, "k": 6, "batch": 1}),
        (node("MatMul", "w"), ROWS, {"w": (2, 6, 5)}, {"m": 5, "n": 4, "k": 6, "batch": 2}),
        (node("Gemm", "w", "b", transB=1), (2, 6), {"w": (5, 6), "b": (5,)}, {"batch": 2, "inputs": 6, "outputs": 5}),
        (node("Relu"), ROWS, {}, {"function": "relu", "length": 48}),
        (node("Max", "w"), ROWS, {"w": ROWS}, {"operation": "maximum", "length": 48}),
        (node("Mul", "w"), ROWS, {"w": ()}, {"operation": "scale"}),
        (node("Softmax", axis=2), ROWS, {}, {"rows": 8, "width": 6}),
        (node("LayerNormalization", "s"), ROWS, {"s": (6,)}, {"rows": 8, "width": 6}),
        (node("BatchNormalization", *"sbmv"), IMAGE, dict.fromkeys("sbmv", (3,)), {"n": 2, "c": 3, "h": 8, "w": 8}),
        (node("MaxPool", kernel_shape=[2, 2], strides=[2, 2]), IMAGE, {}, {"kind": "max", "window": 2, "stride": 2}),
        (node("GlobalAveragePool"), IMAGE, {}, {"kind": "average", "window": 8}),
        (
            node("LSTM", "w", "r", hidden_size=7, direction="bidirectional"),
            STEPS,
            {"w": (2, 28, 6), "r": (2, 28, 7)},
            {"cell": "lstm", "hidden": 7, "batch": 2, "timesteps": 5, "inputs": 6},
        ),
    ],
)
def test_a_node_is_a_kernel_of_its_sizes(
    found: onnx.NodeProto,
    shape: tuple[int, ...],
    weights: dict[str, tuple[int, ...]],
    kernel: dict[str, Any],
    tmp_path: Path,
) -> None:
    [call] = calls(tmp_path, [found], shape, weights)
    assert call.operator == f"onnx::{found.op_type}"
    assert call.parameters == tuple(weights)
    assert len(call.cases) == (2 if found.op_type == "LSTM" else 1)
    sizes = {
        name: list(size) if isinstance(size, tuple) else size for name, size in call.cases[0].kernel.sizes().items()
    }
    assert kernel.items() <= sizes.items()


def test_what_has_no_kernel_says_why_and_views_are_left_out(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "w", output="a", pads=[1, 1, 0, 0]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Erf", ["b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=0),
    ]
    found = calls(tmp_path, nodes, IMAGE, {"w": (4, 3, 2, 2)})
    assert [call.name for call in found] == [
        "onnx::Conv (padded on one side)",
        "onnx::Erf",
        "onnx::Softmax (over a dimension that is not the last)",
    ]


def test_ids_are_looked_up(tmp_path: Path) -> None:
    [call] = calls(tmp_path, [helper.make_node("Gather", ["w", "x"], ["y"])], (2, 3), {"w": (9, 4)}, "i8")
    assert call.cases[0].kernel.sizes() == {"rows": 9, "width": 4, "lookups": 6}
