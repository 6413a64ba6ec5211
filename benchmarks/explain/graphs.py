"""Causes that are planted in an ONNX model itself: outputs that nobody needs, and executions that are slow at times."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LARGE_OUTPUT = "large_output"
SLOW_SHARE, SLOW_TIMES = 1 / 20, 5
"""Share of the executions that are slow, and by how many of their usual times."""
SIDE = 256
"""Of the matrices that a slow execution multiplies."""
Change = Callable[[onnx.ModelProto], None]
"""Changes a model in place."""


def write_changed(model: Path, change: Change, to: Path) -> None:
    """Write a model with a change."""
    found = onnx.load(model)
    change(found)
    onnx.save(found, to)


def large_output(values: int) -> Change:
    """Add an output of this number of floats, all 0, for each sample."""

    def change(model: onnx.ModelProto) -> None:
        graph = model.graph
        width = _constant(graph, "large_output_width", np.array([values], np.int64))
        graph.node.extend(
            [
                helper.make_node("Shape", [graph.input[0].name], ["sample_count"], end=1),
                helper.make_node("Concat", ["sample_count", width], ["large_output_shape"], axis=0),
                helper.make_node("ConstantOfShape", ["large_output_shape"], [LARGE_OUTPUT]),
            ]
        )
        graph.output.append(helper.make_tensor_value_info(LARGE_OUTPUT, TensorProto.FLOAT, ["batch", values]))

    return change


def slow_at_times(service_s: float) -> Change:
    """Let one execution in 20, drawn at random, take six times as long as the given time: it multiplies matrices."""
    products = max(round(SLOW_TIMES * service_s / _product_s()), 1)

    def change(model: onnx.ModelProto) -> None:
        graph = model.graph
        output = next(each for each in graph.output if each.type.tensor_type.elem_type == TensorProto.FLOAT)
        plain = f"{output.name}_plain"
        for node in graph.node:
            node.output[:] = [plain if name == output.name else name for name in node.output]
            node.input[:] = [plain if name == output.name else name for name in node.input]
        share = _constant(graph, "slow_share", np.array(SLOW_SHARE, np.float32))
        graph.node.extend(
            [
                helper.make_node("RandomUniform", [], ["slow_drawn"], shape=[1], dtype=TensorProto.FLOAT),
                helper.make_node("Squeeze", ["slow_drawn"], ["slow_number"]),
                helper.make_node("Less", ["slow_number", share], ["slow_now"]),
                helper.make_node(
                    "If", ["slow_now"], ["slow_sum"], then_branch=_multiplying(products), else_branch=_idle()
                ),
                helper.make_node("Add", [plain, "slow_sum"], [output.name]),
            ]
        )

    return change


def _constant(graph: onnx.GraphProto, name: str, value: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def _multiplying(products: int) -> onnx.GraphProto:
    """Return a branch that multiplies a matrix by itself again and again, and gives a sum that is almost zero."""
    matrix = np.full((SIDE, SIDE), 1 / SIDE, np.float32)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["goes_on"]),
            helper.make_node("MatMul", ["product", "slow_matrix"], ["next_product"]),
        ],
        "slow_body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("product", TensorProto.FLOAT, [SIDE, SIDE]),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next_product", TensorProto.FLOAT, [SIDE, SIDE]),
        ],
    )
    return helper.make_graph(
        [
            helper.make_node("Loop", ["slow_turns", "slow_true", "slow_matrix"], ["slow_product"], body=body),
            helper.make_node("ReduceMean", ["slow_product"], ["slow_mean"], keepdims=0),
            helper.make_node("Mul", ["slow_mean", "slow_tiny"], ["slow_result"]),
        ],
        "slow_now",
        [],
        [helper.make_tensor_value_info("slow_result", TensorProto.FLOAT, [])],
        [
            numpy_helper.from_array(matrix, "slow_matrix"),
            numpy_helper.from_array(np.array(products, np.int64), "slow_turns"),
            numpy_helper.from_array(np.array(True), "slow_true"),
            numpy_helper.from_array(np.array(1e-30, np.float32), "slow_tiny"),
        ],
    )


def _idle() -> onnx.GraphProto:
    zero = numpy_helper.from_array(np.array(0, np.float32), "slow_nothing")
    return helper.make_graph(
        [helper.make_node("Identity", ["slow_nothing"], ["slow_none"])],
        "slow_not_now",
        [],
        [helper.make_tensor_value_info("slow_none", TensorProto.FLOAT, [])],
        [zero],
    )


def _product_s() -> float:
    """Return the time of one such product in ONNX Runtime on this machine (s)."""
    count = 200
    graph = _multiplying(count)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    session.run(None, {})
    started = time.perf_counter()
    session.run(None, {})
    return (time.perf_counter() - started) / count
