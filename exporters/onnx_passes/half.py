"""ONNX graphs in float16 or bfloat16, loops included; inputs and outputs of the model keep their types.

What follows the last weights on the way to an output or to a region of interest (coordinates, scores, the choice among
them) stays in float32: float16 cannot tell two pixels apart above 2,048, bfloat16 above 256.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass
from onnxscript import version_converter

FULL = ir.DataType.FLOAT
HALVES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
BFLOAT16_OPSET = 22
"""The first in which every operator with weights takes bfloat16, pooling and recurrent layers included."""
FLOAT32_OPERATORS = {"CumSum", "Max", "Min", "NonMaxSuppression", "Range", "RoiAlign", "TopK"}
"""Operators that stay in float32: ONNX or ONNX Runtime, on one device or another, has them in no half precision."""
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN"}


def to_half(source: Path, target: Path, precision: str) -> dict[str, object]:
    """Write the graph of `source` in fp16 or bf16; returns how many nodes compute in which type."""
    half = HALVES[precision]
    model = ir.load(source)
    ir.external_data.load_to_model(model)
    if any(value.dtype is None for node in ir.traversal.RecursiveGraphIterator(model.graph) for value in node.outputs):
        model = ShapeInferencePass()(model).model  # a user's file need not say the types within
    if half == ir.DataType.BFLOAT16:
        version_converter.convert_version(model, target_version=BFLOAT16_OPSET, fallback=False)
    nodes = list(ir.traversal.RecursiveGraphIterator(model.graph))
    wide = {node for node in nodes if node.op_type in FLOAT32_OPERATORS} | _last(model.graph)
    wide |= {inner for node in wide for inner in _inside(node)}
    halves = {value for node in nodes if node not in wide for value in _made(node) if value.dtype == FULL}
    halves |= {value for graph in _all_graphs(model.graph) for value in _read(graph, wide)}
    for node in nodes:
        if node not in wide:
            _convert_constants(node, half)
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == FULL and (value in halves) == (node in wide):
                cast = _cast(value, FULL if node in wide else half)
                _graph(node).insert_before(node, cast)
                node.replace_input_with(index, cast.outputs[0])
        for graph in _graphs(node):
            _cast_outputs(graph, halves, FULL if node in wide else half)
    _cast_outputs(model.graph, halves, FULL)
    for value in halves:
        value.dtype = half
        if value.const_value is not None:
            value.const_value = _narrow(value.const_value, half)
    ir.save(model, target)
    floating = [node for node in nodes if any(value.dtype in {FULL, half} for value in node.outputs)]
    return {f"nodes_{precision}": len(set(floating) - wide), "nodes_fp32": len(set(floating) & wide)}


def _last(graph: ir.Graph) -> set[ir.Node]:
    """Find the nodes between the last weights and the outputs, or the regions of interest."""
    waiting = [*graph.outputs, *(node.inputs[1] for node in graph if node.op_type == "RoiAlign")]
    found: set[ir.Node] = set()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if (
            node is not None
            and node not in found
            and not WEIGHTED & {node.op_type, *(n.op_type for n in _inside(node))}
        ):
            found.add(node)
            waiting += [value for each in (node, *_inside(node)) for value in each.inputs]
    return found


def _made(node: ir.Node) -> Iterator[ir.Value]:
    """List what a node makes: its outputs, and what the graphs inside it are handed."""
    yield from node.outputs
    for graph in _graphs(node):
        yield from graph.inputs


def _read(graph: ir.Graph, wide: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """List the weights that a node in half precision reads."""
    for value in graph.initializers.values():
        if value.dtype == FULL and any(use.node not in wide for use in value.uses()):
            yield value


def _cast_outputs(graph: ir.Graph, halves: set[ir.Value], kind: ir.DataType) -> None:
    """Let a graph answer in `kind`; its outputs keep their names."""
    for index, value in enumerate(graph.outputs):
        if value.dtype == FULL and (value in halves) == (kind == FULL):
            cast = _cast(value, kind)
            graph.append(cast)
            answer = graph.outputs[index] = cast.outputs[0]
            answer.name, value.name = value.name, answer.name
            if kind != FULL:
                halves.add(answer)


def _cast(value: ir.Value, kind: ir.DataType) -> ir.Node:
    node = ir.node("Cast", [value], {"to": kind.value})
    answer = node.outputs[0]
    answer.name, answer.dtype, answer.shape = f"{value.name}_{kind.name}_{id(node)}", kind, value.shape
    return node


def _convert_constants(node: ir.Node, half: ir.DataType) -> None:
    """Change a node's own float32 constants, and what it casts to."""
    if node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.zeros(1, np.float32)))  # the default
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == FULL:
            node.attributes[name] = ir.AttrTensor(name, _narrow(attribute.as_tensor(), half))
        elif name in {"to", "dtype"} and attribute.as_int() == FULL.value:
            node.attributes[name] = ir.AttrInt64(name, half.value)


def _narrow(tensor: ir.TensorProtocol, half: ir.DataType) -> ir.TensorProtocol:
    """Round; what lies outside the range, like the mask of a softmax, becomes the largest number there is."""
    largest = np.float32(half.max)
    return ir.tensor(np.clip(tensor.numpy(), -largest, largest).astype(half.numpy()), name=tensor.name)


def _graph(node: ir.Node) -> ir.Graph:
    if not isinstance(node.graph, ir.Graph):
        raise AssertionError(f"{node.name} is in no graph")
    return node.graph


def _graphs(node: ir.Node) -> list[ir.Graph]:
    """List a node's own graphs: the body of a loop, the branches of a condition."""
    return [each.as_graph() for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]


def _all_graphs(graph: ir.Graph) -> list[ir.Graph]:
    return [graph, *(inner for inner in graph.subgraphs() if inner is not graph)]


def _inside(node: ir.Node) -> list[ir.Node]:
    return [inner for graph in _graphs(node) for inner in ir.traversal.RecursiveGraphIterator(graph)]
