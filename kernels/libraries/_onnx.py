"""A model of one node, as ONNX."""

from collections.abc import Sequence
from typing import Any

from kernels.libraries import Array, Node

OPSET, IR_VERSION = 20, 9


def model_of(node: Node, arrays: Sequence[Array], output: tuple[int, ...]) -> bytes:
    """The model's file. Inputs are named by their numbers; the output is `out`."""
    from onnx import TensorProto, helper, numpy_helper

    given = [number for number in node.inputs if number not in node.constants]
    types = {number: helper.np_dtype_to_tensor_dtype(arrays[number].dtype) for number in given}
    attributes: dict[str, Any] = dict(node.attributes)
    graph = helper.make_graph(
        [helper.make_node(node.operator, [f"{number}" for number in node.inputs], ["out"], **attributes)],
        "kernel",
        [helper.make_tensor_value_info(f"{number}", types[number], arrays[number].shape) for number in given],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(arrays[number], f"{number}") for number in node.constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    content: bytes = model.SerializeToString()
    return content
