"""Runs an ONNX graph node by node while TensorFlow records: the result is the same graph in TensorFlow."""

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import defs, helper, inliner

from exporters.onnx_to_tensorflow.node import (
    ANY,
    OPERATORS,
    Node,
    Scope,
    Unsupported,
    default_of,
    faults,
    faults_of,
    opsets,
)
from exporters.onnx_to_tensorflow.values import Value, weights_as_variables
from servemark.frameworks.tensorflow import TensorNames, signature_names

_NO_SCOPE = re.compile(r"[^A-Za-z0-9_.-]+")
"""Characters that a scope of TensorFlow cannot have, or that would end it."""
MAX_CONSTANT_BYTES = 1 << 30
"""Most bytes of weights that are constants, as which 24 GB of memory were too few to load 1.3 GB."""
_MOST_FAULTS = 5
_REFUSALS = (ValueError, TypeError, NotImplementedError, tf.errors.OpError)
"""The errors that TensorFlow raises where it cannot compute something."""


@dataclass(frozen=True)
class Converted:
    """A concrete function, and its names of the file's inputs and outputs."""

    function: Any
    names: TensorNames
    variables: Sequence[tf.Variable] = field(default_factory=list)
    """Its large weights, where they are not constants of the function."""

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Answer inputs by the file's names."""
        return self.names.answered(self.function(**self.names.fed(inputs)))


def concrete(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | None]] | None = None) -> Converted:
    """Convert a model into a concrete function of its inputs, whose answer is a dict of its outputs.

    `shapes` are those that will be asked for, None for a size that varies: what the file leaves open is then known.
    Raises Unsupported, naming nodes and operators, where the graph has something that is missing here.
    """
    if model.functions:
        model = inliner.inline_local_functions(model)
    graph, opset = model.graph, opsets(model.opset_import).get("", defs.onnx_opset_version())
    _check(graph, opset)
    known = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in known]
    names = signature_names([each.name for each in inputs], [each.name for each in graph.output])

    def answer(**tensors: Any) -> dict[str, Any]:
        values = run(graph, [Value(tensors[names.inputs[each.name]]) for each in inputs], opset)
        return {
            names.outputs[each.name]: tf.identity(value.first, names.outputs[each.name])
            for each, value in zip(graph.output, values, strict=True)
        }

    specs = {
        names.inputs[each.name]: tf.TensorSpec(
            _narrowed(shape_of(each), (shapes or {}).get(each.name)), _dtype(each), names.inputs[each.name]
        )
        for each in inputs
    }
    recorded = tf.function(answer, autograph=False)
    if sum(each.ByteSize() for each in (*graph.initializer, *graph.node)) <= MAX_CONSTANT_BYTES:
        return Converted(recorded.get_concrete_function(**specs), names)
    with weights_as_variables() as variables:
        return Converted(recorded.get_concrete_function(**specs), names, variables)


def run(graph: onnx.GraphProto, inputs: Sequence[Value], opset: int, around: Scope | None = None) -> list[Value]:
    """Compute a graph's outputs, of a loop's body within the scope around it."""
    scope = Scope(graph.initializer, opset, around)
    free = [each.name for each in graph.input if each.name not in scope.values]  # old files list the weights there too
    scope.values |= dict(zip(free, inputs, strict=False))
    shapes = {each.name: shape_of(each) for each in graph.value_info}
    _compute(graph.node, scope, shapes)
    return [scope.found(each.name) for each in graph.output]


def _compute(nodes: Iterable[onnx.NodeProto], scope: Scope, shapes: Mapping[str, list[int | None] | None]) -> None:
    for proto in nodes:
        scope_name = _NO_SCOPE.sub("_", proto.name).strip("_.-") or proto.op_type
        with tf.name_scope(scope_name):  # a profile tells nodes by it
            results = _results(proto, scope)
        for name, value in zip(proto.output, results, strict=False):
            known = shapes.get(name)
            if known is not None:
                value.set_shape(known)
            scope.values[name] = value


def shape_of(info: onnx.ValueInfoProto) -> list[int | None] | None:
    """The sizes that the file knows, None for each other; None where not even their number is known."""
    described = info.type.tensor_type
    if not described.HasField("shape"):
        return None
    sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in described.shape.dim]
    return [size if size >= 0 else None for size in sizes]  # some exporters write -1


def _narrowed(known: list[int | None] | None, asked: Sequence[int | None] | None) -> list[int | None] | None:
    """Fill in the sizes that the file leaves open with those that will be asked for."""
    if asked is None or (known is not None and len(known) != len(asked)):
        return known
    return [
        size if size is not None else wanted for size, wanted in zip(known or [None] * len(asked), asked, strict=True)
    ]


def _results(proto: onnx.NodeProto, scope: Scope) -> list[Value]:
    """Compute a node's outputs; at once where all that goes in is constant, as where weights are put together."""
    node = Node(proto, scope)
    declared = OPERATORS.get(proto.op_type)
    if declared is None:
        return _by_definition(node, proto, scope)
    # a graph of its own may read what is not among its inputs
    has_graphs = any(each.HasField("g") for each in proto.attribute)
    constant = not has_graphs and all(value is None or value.array is not None for value in node.inputs)
    parameters = node.parameters(declared)
    try:
        with tf.init_scope() if constant else contextlib.nullcontext():
            answer = declared.function(node, **parameters)
            results = [
                each if isinstance(each, Value) else Value(each)
                for each in (answer if isinstance(answer, tuple) else (answer,))
            ]
            return [Value(_array(each)) for each in results] if constant else results
    except _REFUSALS as error:
        raise node.unsupported(f"is refused by TensorFlow: {' '.join(str(error).split())}") from error


def _by_definition(node: Node, proto: onnx.NodeProto, scope: Scope) -> list[Value]:
    """Compute an operator by the nodes that ONNX defines it as."""
    function = _definition(proto, node.schema, scope.opset, node.inputs)
    if function is None:
        raise node.unsupported(f"in opset {scope.opset}")
    inside = Scope([], opsets(function.opset_import)[""])
    inside.values |= dict.fromkeys(function.input) | dict(zip(function.input, node.inputs, strict=False))
    found = [fault for each in function.node for fault in faults_of(each, inside.opset)]
    if found:
        raise node.unsupported(f"needs {found[0]}")
    try:
        _compute(function.node, inside, {})
    except Unsupported as error:
        raise node.unsupported(f"needs {error}") from error
    wanted = zip(function.output, [*proto.output, *[""] * len(function.output)], strict=False)
    return [inside.found(name) if output else Value(np.zeros(0)) for name, output in wanted]


def _array(value: Value) -> Any:
    return value.array if value.array is not None and not value.prefers_last else value.first.numpy()


def _check(graph: onnx.GraphProto, opset: int) -> None:
    """Raise Unsupported, before anything is built, for all that is not declared."""
    for info in (*graph.input, *graph.output):
        if not info.type.HasField("tensor_type"):
            raise Unsupported(f"{info.name!r}, which is not a tensor but {info.type.WhichOneof('value')}")
        if _dtype(info) not in ANY:
            name = onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type)
            raise Unsupported(f"{info.name!r}, a tensor of {name}")
    found = list(faults(graph, opset))
    if len(found) == 1:
        raise found[0]
    if found:
        operators = sorted({name for each in found for name in each.operators})
        words = list(dict.fromkeys(str(each) for each in found))
        said = "; ".join(words[:_MOST_FAULTS]) + (
            f" and {len(words) - _MOST_FAULTS} more" if words[_MOST_FAULTS:] else ""
        )
        raise Unsupported(f"operators {', '.join(operators)}: {said}", operators)


def _dtype(info: onnx.ValueInfoProto) -> Any:
    return np.dtype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))


def _definition(
    proto: onnx.NodeProto, schema: Any, opset: int, inputs: Sequence[Value | None]
) -> onnx.FunctionProto | None:
    """Return what ONNX defines a node as, its attributes filled in; None where it has no definition for this opset.

    `onnx.inliner` is not used: it takes the newest definition into graphs of older opsets, and ends where an optional
    input is left out.
    """
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
