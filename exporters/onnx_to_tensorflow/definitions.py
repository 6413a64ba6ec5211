"""Operators that ONNX itself defines by others: the nodes of such a definition, for one node of the graph.

`onnx.inliner` is not used for them: it takes the newest definition into graphs of older opsets, and ends where an
optional input is left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
from onnx import helper

from exporters.onnx_to_tensorflow.declaration import default_of
from exporters.onnx_to_tensorflow.values import Value


def definition(
    proto: onnx.NodeProto, schema: Any, opset: int, inputs: Sequence[Value | None]
) -> onnx.FunctionProto | None:
    """Return what ONNX defines a node as, its attributes filled in; None where it has no definition for this opset."""
    newest = max((each for each in schema.function_opset_versions if each <= opset), default=None)
    of_context = max((each for each in schema.context_dependent_function_opset_versions if each <= opset), default=None)
    if newest is not None:
        body = schema.get_function_with_opset_version(newest)
    elif of_context is not None:
        types = [_type_of(each) for each in inputs]
        body = schema.get_context_dependent_function_with_opset_version(of_context, proto.SerializeToString(), types)
    else:
        return None
    function = onnx.FunctionProto.FromString(body)
    if not function.node:
        return None
    given = {name: each.default_value for name, each in schema.attributes.items() if default_of(each) is not None}
    given |= {each.name: each for each in proto.attribute}
    _fill(function.node, given)
    return function


def _fill(nodes: Iterable[onnx.NodeProto], given: dict[str, onnx.AttributeProto]) -> None:
    """Replace references to the operator's attributes; one without a value leaves the node's attribute out."""
    for node in nodes:
        attributes = list(node.attribute)
        del node.attribute[:]
        for each in attributes:
            if each.ref_attr_name and each.ref_attr_name not in given:
                continue
            filled = node.attribute.add()
            filled.CopyFrom(given[each.ref_attr_name] if each.ref_attr_name else each)
            filled.name = each.name
            if filled.HasField("g"):
                _fill(filled.g.node, given)


def _type_of(value: Value | None) -> bytes:
    if value is None:
        return onnx.TypeProto().SerializeToString()
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    sizes = list(value.shape) if value.has_rank else None
    return helper.make_tensor_type_proto(kind, sizes).SerializeToString()
