"""ONNX graphs in float16, loops included; inputs and outputs of the model keep their types.

What follows the last weights on the way to an output or to a region of interest (coordinates, scores, the choice among
them) stays in float32: float16 cannot tell two pixels apart above 2,048, nor half pixels above 1,024.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir

FULL, HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16
KEPT = {"CumSum", "Max", "Min", "NonMaxSuppression", "Range", "RoiAlign", "TopK"}
"""Operators that stay in float32: ONNX Runtime has no float16 kernel of them on one device or another."""
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN"}


def to_float16(source: Path, target: Path) -> dict[str, object]:
    """Write the graph of `source` in float16; returns how many nodes compute in which type."""
    model = ir.load(source)
    nodes = list(ir.traversal.RecursiveGraphIterator(model.graph))
    wide = {node for node in nodes if node.op_type in KEPT} | _last(model.graph)
    wide |= {inner for node in wide for inner in _inside(node)}
    halves = {value for node in nodes if node not in wide for value in _made(node) if value.dtype == FULL}
    halves |= {value for graph in _all_graphs(model.graph) for value in _read(graph, wide)}
    for node in nodes:
        if node not in wide:
            _convert_constants(node)
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype == FULL and (value in halves) == (node in wide):
                cast = _cast(value, FULL if node in wide else HALF)
                _graph(node).insert_before(node, cast)
                node.replace_input_with(index, cast.outputs[0])
        for graph in _graphs(node):
            _cast_outputs(graph, halves, FULL if node in wide else HALF)
    _cast_outputs(model.graph, halves, FULL)
    for value in halves:
        value.dtype = HALF
        if value.const_value is not None:
            value.const_value = _narrow(value.const_value)
    ir.save(model, target)
    floating = [node for node in nodes if any(value.dtype in {FULL, HALF} for value in node.outputs)]
    return {"nodes_fp16": len(set(floating) - wide), "nodes_fp32": len(set(floating) & wide)}


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
    """List the weights that a node in float16 reads."""
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
            if kind == HALF:
                halves.add(answer)


def _cast(value: ir.Value, kind: ir.DataType) -> ir.Node:
    node = ir.node("Cast", [value], {"to": kind.value})
    answer = node.outputs[0]
    answer.name, answer.dtype, answer.shape = f"{value.name}_{kind.name}_{id(node)}", kind, value.shape
    return node


def _convert_constants(node: ir.Node) -> None:
    """Change a node's own float32 constants, and what it casts to."""
    if node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.zeros(1, np.float32)))  # the default
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == FULL:
            node.attributes[name] = ir.AttrTensor(name, _narrow(attribute.as_tensor()))
        elif name in {"to", "dtype"} and attribute.as_int() == FULL.value:
            node.attributes[name] = ir.AttrInt64(name, HALF.value)


def _narrow(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Round to float16; what lies outside its range, like the mask of a softmax, becomes its largest number."""
    limits = np.finfo(np.float16)
    return ir.tensor(np.clip(tensor.numpy(), limits.min, limits.max).astype(np.float16), name=tensor.name)


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
