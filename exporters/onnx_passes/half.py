"""ONNX graphs in float16 or bfloat16, loops included; inputs and outputs of the model keep their types.

What follows the last weights on the way to an output or to a region of interest (coordinates, scores, the choice among
them) stays in float32: float16 cannot tell two pixels apart above 2,048, bfloat16 above 256. So does what becomes a
size, a scale or an index. What an operator has in no half type stays in float32 behind casts.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from exporters.onnx_passes import graphs
from exporters.onnx_passes.operators import (
    FULL,
    HALVES,
    NONE,
    Ports,
    exact_inputs,
    graphs_of,
    is_full,
    narrowed,
    ports,
)
from servemark.errors import ArtifactError

OPSETS = {"fp16": 7, "bf16": 22}
"""The first that ONNX Runtime promises to run; the first in which every operator with weights takes bfloat16."""
FLOAT32_OPERATORS = {
    "CumSum",
    "Max",
    "MeanVarianceNormalization",
    "Min",
    "NonMaxSuppression",
    "Range",
    "RoiAlign",
    "TopK",
}
"""Operators that stay in float32: ONNX or ONNX Runtime, on one device or another, has them in no half precision."""
NOT_IN_BFLOAT16 = {"ConvTranspose", "GRU", "HardSwish", "LpPool", "Mish"}
"""Operators that stay in float32 beside bfloat16, since TensorRT builds them in float16 only. So does what lies between
a GRU and the weights before and after it: behind casts there TensorRT-RTX 1.7 loses a sequence's length."""
REDUCING = {"ScatterElements", "ScatterND"}
"""Operators that ONNX Runtime has in half precision only where they do not reduce."""
DIVIDING = {"BatchNormalization", "Div"}
"""Operators that divide by constants: cut off at a half type's largest number, a variance would be another one."""
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN"}


def to_half(source: Path, target: Path, precision: str) -> dict[str, object]:
    """Write the graph of `source` in fp16 or bf16; returns how many nodes compute in which type.

    Raises ArtifactError where none would, and where ONNX's checker refuses the result.
    """
    half = HALVES[precision]
    model = graphs.load(source, opset=OPSETS[precision])
    opset = graphs.opset_of(model)
    nodes = list(graphs.every_node(model))
    wide = {node for node in nodes if _stays(node, half)} | _exact(model, half)
    if precision == "bf16":
        grus = [node for node in nodes if node.op_type == "GRU"]
        wide |= _between(grus) | _beside(grus)
    wide |= {inner for node in wide for inner in _inside(node)}
    plan = {node: NONE if node in wide else ports(node, half, opset) for node in nodes}
    numbers = itertools.count()
    # the graphs within a node that stays in float32 have its types
    for node in nodes:
        if plan[node] == NONE and graphs_of(node):
            plan |= dict.fromkeys(_inside(node), NONE)
    halves = {node.outputs[index] for node in nodes for index in plan[node].outputs}
    graphs_within = [graph for node in nodes if plan[node] != NONE for graph in graphs_of(node)]
    halves |= {value for graph in graphs_within for value in graph.inputs if is_full(value)}
    _narrow_weights(model, plan, halves, half)
    for node in nodes:
        for attribute in plan[node].attributes or ():
            node.attributes[attribute.name] = attribute
        for index, value in enumerate(node.inputs):
            if value is not None and is_full(value) and (value in halves) != (index in plan[node].inputs):
                cast = _cast(value, half if index in plan[node].inputs else FULL, numbers)
                _graph(node).insert_before(node, cast)
                node.replace_input_with(index, cast.outputs[0])
        for graph in graphs_of(node):
            _cast_outputs(graph, halves, FULL if plan[node] == NONE else half, numbers)
    _cast_outputs(model.graph, halves, FULL, numbers)
    for value in halves:
        value.dtype = half
        if value.const_value is not None:
            value.const_value = narrowed(value.const_value, half)
    floating = [node for node in nodes if any(value.dtype in {FULL, half} for value in node.outputs)]
    in_half = [node for node in floating if any(value.dtype == half for value in node.outputs)]
    if not any(found.inputs or found.outputs for found in plan.values()):
        kinds = ", ".join(sorted({node.op_type for node in floating})) or "no operator"
        raise ArtifactError(
            f"none of its operators computes in {precision}: {kinds} would stay in float32", fix=graphs.FIX
        )
    ir.save(model, target)
    graphs.check(target, source, precision)
    return {f"nodes_{precision}": len(in_half), "nodes_fp32": len(floating) - len(in_half)}


def _stays(node: ir.Node, half: ir.DataType) -> bool:
    reduces = node.op_type in REDUCING and "reduction" in node.attributes
    return (
        node.op_type in FLOAT32_OPERATORS
        or (half == HALVES["bf16"] and node.op_type in NOT_IN_BFLOAT16)
        or (reduces and node.attributes["reduction"].as_string() != "none")
        or (node.op_type in DIVIDING and any(_exceeds(value, half) for value in node.inputs))
    )


def _exceeds(value: ir.Value | None, half: ir.DataType) -> bool:
    """Return True for a constant with numbers that a half type cannot hold."""
    if value is None or value.const_value is None or not is_full(value):
        return False
    return bool((np.abs(value.const_value.numpy()) > half.max).any())


def _exact(model: ir.Model, half: ir.DataType) -> set[ir.Node]:
    """Find the nodes between the last weights and the outputs, the regions of interest, sizes or indices."""
    ends: list[ir.Value | None] = [*model.graph.outputs]
    opset = graphs.opset_of(model)
    for node in graphs.every_node(model):
        ends += [node.inputs[1]] if node.op_type == "RoiAlign" else exact_inputs(node, half, opset)
    return _until_weights([maker for value in ends if value is not None and (maker := value.producer())], _makers)


def _beside(nodes: Collection[ir.Node]) -> set[ir.Node]:
    """Find the nodes between these and the weights before and after."""
    before = _until_weights([maker for node in nodes for maker in _makers(node)], _makers)
    return before | _until_weights([reader for node in nodes for reader in _readers(node)], _readers)


def _until_weights(starts: Collection[ir.Node], step: Callable[[ir.Node], Iterable[ir.Node]]) -> set[ir.Node]:
    """Walk a graph from these nodes on, as far as those that multiply with weights, which are left out."""
    found: set[ir.Node] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in found and not WEIGHTED & {node.op_type, *(inner.op_type for inner in _inside(node))}:
            found.add(node)
            waiting += step(node)
    return found


def _makers(node: ir.Node) -> list[ir.Node]:
    """List the nodes that make what a node, or one within it, reads."""
    read = [value for each in (node, *_inside(node)) for value in each.inputs if value is not None]
    return [made_by for value in read if (made_by := value.producer()) is not None]


def _readers(node: ir.Node) -> list[ir.Node]:
    return [use.node for value in node.outputs for use in value.uses()]


def _between(ends: Collection[ir.Node]) -> set[ir.Node]:
    """Find the nodes on the way from one of these to another."""
    after, before = _reached(ends, ir.Node.successors), _reached(ends, ir.Node.predecessors)
    return after & before


def _reached(starts: Collection[ir.Node], step: Callable[[ir.Node], Iterable[ir.Node]]) -> set[ir.Node]:
    found: set[ir.Node] = set()
    waiting = list(starts)
    while waiting:
        new = set(step(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def _narrow_weights(model: ir.Model, plan: Mapping[ir.Node, Ports], halves: set[ir.Value], half: ir.DataType) -> None:
    """Keep weights in the half type; those that are read in float32 too are there in both."""
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in [each for each in graph.initializers.values() if is_full(each)]:
            taken = [use for use in value.uses() if use.idx in plan[use.node].inputs]
            if len(taken) == len(value.uses()) and taken and not value.is_graph_output():
                halves.add(value)
            elif taken and value.const_value is not None:
                copy = ir.Value(name=f"{value.name}_{half.name}", type=ir.TensorType(FULL), shape=value.shape)
                copy.const_value = value.const_value
                graph.register_initializer(copy)
                halves.add(copy)
                for use in taken:
                    use.node.replace_input_with(use.idx, copy)


def _cast_outputs(graph: ir.Graph, halves: set[ir.Value], kind: ir.DataType, numbers: Iterator[int]) -> None:
    """Let a graph answer in `kind`; its outputs keep their names."""
    for index, value in enumerate(graph.outputs):
        if is_full(value) and (value in halves) == (kind == FULL):
            cast = _cast(value, kind, numbers)
            graph.append(cast)
            answer = graph.outputs[index] = cast.outputs[0]
            answer.name, value.name = value.name, answer.name
            if kind != FULL:
                halves.add(answer)


def _cast(value: ir.Value, kind: ir.DataType, numbers: Iterator[int]) -> ir.Node:
    """Make a cast with a name: without one TensorRT warns, and its profile has layers without names."""
    name = f"{value.name}_{kind.name}_{next(numbers)}"
    node = ir.node("Cast", [value], {"to": kind.value}, name=name)
    answer = node.outputs[0]
    answer.name, answer.dtype, answer.shape = name, kind, value.shape
    return node


def _graph(node: ir.Node) -> ir.Graph:
    if not isinstance(node.graph, ir.Graph):
        raise AssertionError(f"{node.name} is in no graph")
    return node.graph


def _inside(node: ir.Node) -> list[ir.Node]:
    return [inner for graph in graphs_of(node) for inner in ir.traversal.RecursiveGraphIterator(graph)]
