"""Half types of operators: the schema of the graph's opset says which ports have one, with its inference of types.

Inputs of a literal type (the scales of a Resize, those of a QuantizeLinear before opset 19) stay float32, and so do
outputs that inference calls so (the mean of a LayerNormalization, a window whose type is an attribute). An operator
outside of ONNX's own domain (ai.onnx.ml, com.microsoft) has none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TypeProto, helper

FULL = ir.DataType.FLOAT
HALVES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
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
