"""ONNX graphs in float16 or bfloat16, loops included; inputs and outputs of the model keep their types.

What follows the last weights on the way to an output or to a region of interest (coordinates, scores, the choice among
them) stays in float32: float16 cannot tell two pixels apart above 2,048, bfloat16 above 256. So does what becomes a
size, a scale or an index. What an operator has in no half type stays in float32 behind casts.

The schema of the graph's opset says which ports of an operator have a half type, with its inference of types. Inputs of
a literal type (the scales of a Resize, those of a QuantizeLinear before opset 19) stay float32, and so do outputs that
inference calls so (the mean of a LayerNormalization, a window whose type is an attribute). An operator outside of
ONNX's own domain (ai.onnx.ml, com.microsoft) has none.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TypeProto, helper

from exporters.onnx_passes import graphs
from servemark.errors import ArtifactError

FULL = ir.DataType.FLOAT
HALVES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
OPSETS = {"fp16": 7, "bf16": 22}
"""The first that ONNX Runtime promises to run; the first in which every operator with weights takes bfloat16."""
FLOAT32_OPERATORS = {
    "CumSum", "Max", "MeanVarianceNormalization", "Min", "NonMaxSuppression", "Range", "RoiAlign", "TopK",
}  # fmt: skip
"""Operators that stay in float32: ONNX or ONNX Runtime, on one device or another, has them in no half precision."""
NOT_IN_BFLOAT16 = {"ConvTranspose", "GRU", "HardSwish", "LpPool", "Mish"}
"""Operators that stay in float32 beside bfloat16, since TensorRT builds them in float16 only. So does what lies between
a GRU and the weights before and after it: behind casts there TensorRT-RTX 1.7 loses a sequence's length."""
REDUCING = {"ScatterElements", "ScatterND"}
"""Operators that ONNX Runtime has in half precision only where they do not reduce."""
DIVIDING = {"BatchNormalization", "Div"}
"""Operators that divide by constants: cut off at a half type's largest number, a variance would be another one."""
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN"}
TYPED_BY = {"to", "dtype", "output_datatype", "output_dtype"}
"""Attributes that name the type of an output."""
INTEGERS = {kind for kind in ir.DataType if kind.is_integer()}


class Ports(NamedTuple):
    """Inputs and outputs of a node in a half type, by index, and the attributes it then has."""

    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    attributes: tuple[ir.Attr, ...] | None = None
    """None: those that it has."""


NONE = Ports()


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
        # what lies on the way from one GRU to another
        between = _reached(grus, ir.Node.successors) & _reached(grus, ir.Node.predecessors)
        wide |= between | _beside(grus)
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
                assert isinstance(node.graph, ir.Graph)
                node.graph.insert_before(node, cast)
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


def _inside(node: ir.Node) -> list[ir.Node]:
    return [inner for graph in graphs_of(node) for inner in ir.traversal.RecursiveGraphIterator(graph)]


def ports(node: ir.Node, half: ir.DataType, opset: int) -> Ports:
    """Find where a node of a float32 graph can be in a half type."""
    if not all(value is None or value.type is None or is_tensor(value) for value in (*node.inputs, *node.outputs)):
        return NONE  # a sequence keeps the type of its elements, and what is put in or taken out has it
    if graphs_of(node):
        return Ports(frozenset(_full(node.inputs)), frozenset(_full(node.outputs)))
    schema = _schema(node, opset)
    if schema is None:
        return NONE
    kind = f"tensor({half.name.lower()})"
    able = {each.type_param_str for each in schema.type_constraints if kind in each.allowed_type_strs}
    inputs = frozenset(index for index in _full(node.inputs) if _parameter(schema.inputs, index) in able)
    attributes = tuple(_in_half(node, half))
    made = _inferred(schema, node, inputs, attributes, half, opset)
    full = list(_full(node.outputs))
    if made is None or any(made[index] not in {FULL, half} for index in full):
        return NONE
    outputs = frozenset(index for index in full if made[index] == half)
    if any(_parameter(schema.outputs, index) not in able for index in outputs):
        return NONE
    return Ports(inputs, outputs, attributes)


def narrowed(tensor: ir.TensorProtocol, half: ir.DataType) -> ir.TensorProtocol:
    """Round; what lies outside the range, like the mask of a softmax, becomes the largest number there is."""
    largest = np.float32(half.max)
    return ir.tensor(np.clip(tensor.numpy(), -largest, largest).astype(half.numpy()), name=tensor.name)


def is_tensor(value: ir.Value | None) -> bool:
    """Return True for a value that is a tensor, no sequence or map of tensors."""
    return value is not None and isinstance(value.type, ir.TensorType)


def is_full(value: ir.Value | None) -> bool:
    """Return True for a tensor in float32."""
    return value is not None and is_tensor(value) and value.dtype == FULL


def graphs_of(node: ir.Node) -> list[ir.Graph]:
    """List a node's own graphs: the body of a loop, the branches of a condition."""
    return [each.as_graph() for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]


def exact_inputs(node: ir.Node, half: ir.DataType, opset: int) -> list[ir.Value]:
    """List the inputs of a node that are sizes, scales or numbers of elements, which no half type tells apart."""
    if node.op_type == "Cast" and node.attributes["to"].as_int() in INTEGERS:
        return [value for value in node.inputs if value is not None and is_full(value)]
    taken = ports(node, half, opset).inputs
    return [
        value
        for index, value in enumerate(node.inputs)
        if value is not None and is_full(value) and 0 in taken and index not in taken
    ]


def _full(values: Sequence[ir.Value | None]) -> list[int]:
    return [index for index, value in enumerate(values) if is_full(value)]


def _schema(node: ir.Node, opset: int) -> onnx.defs.OpSchema | None:
    if node.domain:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _parameter(parameters: "Sequence[onnx.defs.OpSchema.FormalParameter]", index: int) -> str:
    """Return the type, or its variable, of an input or output; the last parameter may stand for many."""
    return str(parameters[min(index, len(parameters) - 1)].type_str)


def _in_half(node: ir.Node, half: ir.DataType) -> list[ir.Attr]:
    """List a node's attributes with its own float32 constants in a half type, and with what it makes in it."""
    found = []
    for name, attribute in node.attributes.items():
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == FULL:
            found.append(ir.AttrTensor(name, narrowed(attribute.as_tensor(), half)))
        elif name in TYPED_BY and attribute.type == ir.AttributeType.INT and attribute.as_int() == FULL.value:
            found.append(ir.AttrInt64(name, half.value))
        else:
            found.append(attribute)
    if node.op_type == "ConstantOfShape" and "value" not in node.attributes:  # the default
        found.append(ir.AttrTensor("value", ir.tensor(np.zeros(1, half.numpy()))))
    return found


def _inferred(
    schema: onnx.defs.OpSchema,
    node: ir.Node,
    inputs: frozenset[int],
    attributes: tuple[ir.Attr, ...],
    half: ir.DataType,
    opset: int,
) -> dict[int, ir.DataType] | None:
    """Infer the types of a node's outputs from those of its inputs; None where they do not fit."""
    read = {index: value for index, value in enumerate(node.inputs) if value is not None}
    proto = helper.make_node(
        node.op_type,
        [f"i{index}" if index in read else "" for index in range(len(node.inputs))],
        [f"o{index}" for index in range(len(node.outputs))],
    )
    proto.attribute.extend(ir.to_proto(attribute) for attribute in attributes)
    kinds: dict[str, TypeProto] = {}
    for index, value in read.items():
        kind = half if index in inputs else value.dtype
        if kind is not None:
            kinds[f"i{index}"] = helper.make_tensor_type_proto(kind.value, None)
    try:
        made = onnx.shape_inference.infer_node_outputs(
            schema, proto, kinds, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )
    except Exception:  # its class is not public
        return None
    return {
        index: ir.DataType(made[f"o{index}"].tensor_type.elem_type) if f"o{index}" in made else ir.DataType.UNDEFINED
        for index in range(len(node.outputs))
    }
