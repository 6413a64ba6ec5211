"""Products with constant weights as ONNX Runtime's quantiser takes them: a Gemm without factors, a bias for each node.

The quantiser forgets the factor of a bias, shares the scale of a bias between nodes, and takes the second dimension of
any matrix for its output channels.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from exporters.onnx_passes import graphs


def prepare(graph: ir.Graph, chosen: Collection[ir.Node]) -> set[str]:
    """Rewrite products in place, without another answer; returns the weights that have one scale for all channels."""
    for node in chosen:
        while node.inputs and node.inputs[-1] is None:
            node.resize_inputs(len(node.inputs) - 1)
        if node.op_type == "Gemm":
            _without_factors(graph, node)
            _with_plain_bias(graph, node)
        if len(node.inputs) > 2:
            _own(graph, node, 2)
        for index in range(min(2, len(node.inputs))):
            if _is_read_otherwise(node, index, chosen):
                _own(graph, node, index)
    read = [(node, index, value) for node in chosen for index, value in enumerate(node.inputs[:2]) if value is not None]
    return {str(value.name) for node, index, value in read if _has_one_scale(node, index)}


def constant(value: ir.Value | None) -> npt.NDArray[np.generic] | None:
    """Return what a value always is; None for one that is computed."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def _has_one_scale(node: ir.Node, index: int) -> bool:
    """Tell whether a product's weights are no matrix of which each column makes one output channel."""
    array = constant(node.inputs[index])
    return array is not None and node.op_type == "MatMul" and (index == 0 or array.ndim != 2)


def _is_read_otherwise(node: ir.Node, index: int, chosen: Collection[ir.Node]) -> bool:
    """Tell whether weights are read in a subgraph too, or along another axis."""
    value = node.inputs[index]
    if value is None or value.const_value is None:
        return False
    return any(
        use.node.graph is not node.graph or (use.node in chosen and _role(use.node, use.idx) != _role(node, index))
        for use in value.uses()
    )


def _role(node: ir.Node, index: int) -> tuple[bool, int, int]:
    return (node.op_type == "Conv", index, graphs.integer(node, "transB"))


def _without_factors(graph: ir.Graph, node: ir.Node) -> None:
    """Multiply the constants of a Gemm with its factors."""
    for name, index in (("alpha", 1), ("beta", 2)):
        factor = node.attributes[name].as_float() if name in node.attributes else 1.0
        array = constant(node.inputs[index]) if index < len(node.inputs) else None
        if factor != 1 and array is not None:
            _set(graph, node, index, (array * np.asarray(factor, array.dtype)).astype(array.dtype))
            del node.attributes[name]


def _with_plain_bias(graph: ir.Graph, node: ir.Node) -> None:
    """Give a Gemm one bias for each output channel, or add what is none afterwards."""
    weights, bias = constant(node.inputs[1]), constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if weights is None or bias is None:
        return
    channels = weights.shape[0 if graphs.integer(node, "transB") else 1]
    if bias.shape == (channels,):
        return
    if bias.size == 1 or bias.shape == (1, channels):
        _set(graph, node, 2, np.broadcast_to(bias.reshape(-1), (channels,)).copy())
        return
    answer, added = node.outputs[0], node.inputs[2]
    node.resize_inputs(2)
    add = ir.node("Add", [answer, added], name=f"{node.name}_bias")
    total = add.outputs[0]
    total.type, total.shape = answer.type, answer.shape
    graph.insert_after(node, add)
    for use in answer.uses():
        if use.node is not add:
            use.node.replace_input_with(use.idx, total)
    graph.outputs[:] = [total if value is answer else value for value in graph.outputs]
    total.name, answer.name = answer.name, f"{answer.name}_without_bias"


def _own(graph: ir.Graph, node: ir.Node, index: int) -> None:
    """Give a node a copy of a constant that other nodes read too."""
    value = node.inputs[index]
    array = constant(value)
    if value is not None and array is not None and len(value.uses()) > 1:
        _set(graph, node, index, array)


def _set(graph: ir.Graph, node: ir.Node, index: int, array: npt.NDArray[np.generic]) -> None:
    before = node.inputs[index]
    name = f"{before.name if before else node.name}_of_{node.name}_{index}"
    node.replace_input_with(index, graphs.initializer(graph, name, array))
    if before is not None and before.is_initializer() and not before.uses() and not before.is_graph_output():
        del graph.initializers[str(before.name)]
