"""Runs an ONNX graph node by node while TensorFlow records: the result is the same graph in TensorFlow."""

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

from exporters.onnx_to_tensorflow.values import Array, Value

Operator = Callable[["Node"], Any]
OPERATORS: dict[str, Operator] = {}
_NO_SCOPE = re.compile(r"^[^A-Za-z0-9.]|[^A-Za-z0-9_.\\/>-]")
"""Characters that a scope of TensorFlow cannot have."""


class Unsupported(Exception):  # noqa: N818 - it says what is not supported
    """The graph has something that this conversion lacks."""


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what a node of one of these types computes: a tensor, a Value, or a tuple of them."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


class Scope:
    """The values of a graph by name; those of the graphs around it can be read."""

    def __init__(self, graph: onnx.GraphProto, parent: "Scope | None" = None) -> None:
        self.values = {each.name: Value(numpy_helper.to_array(each)) for each in graph.initializer}
        self._parent = parent

    def __getitem__(self, name: str) -> Value:
        if name in self.values or self._parent is None:
            return self.values[name]
        return self._parent[name]


class Node:
    """One node with its inputs, those left out being None."""

    def __init__(self, proto: onnx.NodeProto, scope: Scope) -> None:
        self.type = proto.op_type
        self.scope = scope
        self.inputs = [scope[name] if name else None for name in proto.input]
        self.outputs = len(proto.output)
        self.attributes = {each.name: _attribute(each) for each in proto.attribute}

    def value(self, index: int) -> Value:
        """An input that has to be there."""
        found = self.inputs[index]
        if found is None:
            raise Unsupported(f"{self.type} without input {index}")
        return found

    def tensor(self, index: int) -> Any:
        """An input as ONNX has it."""
        return self.value(index).first

    def has(self, index: int) -> bool:
        """Return True if an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def static(self, index: int) -> Array:
        """An input that has to be known now, such as axes. Raises Unsupported."""
        found = self.value(index).static()
        if found is None:
            raise Unsupported(f"{self.type} with an input {index} that is computed")
        return found

    def constant(self, index: int) -> Value:
        """An input that has to be known now, which keeps what is made of it. Raises Unsupported."""
        found = self.value(index)
        return found if found.array is not None else Value(self.static(index))

    def ints(self, index: int, default: Sequence[int] = ()) -> list[int]:
        """Whole numbers known now; the default where the input is left out."""
        return [int(each) for each in np.ravel(self.static(index))] if self.has(index) else list(default)

    def require(self, **wanted: object) -> None:
        """Refuse attributes with other values than these. Raises Unsupported."""
        for name, value in wanted.items():
            found = self.attributes.get(name, value)
            if found != value:
                raise Unsupported(f"{self.type} with {name}={found}")


def concrete(model: onnx.ModelProto) -> Any:
    """Convert a model into a concrete function of its inputs by name, whose answer is a dict of its outputs by name.

    Raises Unsupported, naming the operators, where the graph has some that are missing here.
    """
    graph = model.graph
    missing = sorted(_operators(graph) - set(OPERATORS))
    if missing:
        raise Unsupported(f"operators {', '.join(missing)}")
    known = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in known]
    names = [each.name for each in graph.output]

    def answer(**tensors: Any) -> dict[str, Any]:
        values = run(graph, [Value(tensors[each.name]) for each in inputs])
        return {name: tf.identity(value.first, name) for name, value in zip(names, values, strict=True)}

    specs = {
        each.name: tf.TensorSpec(shape_of(each), helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type))
        for each in inputs
    }
    return tf.function(answer, autograph=False).get_concrete_function(**specs)


def run(graph: onnx.GraphProto, inputs: Sequence[Value], around: Scope | None = None) -> list[Value]:
    """Compute a graph's outputs, of a loop's body within the scope around it."""
    scope = Scope(graph, around)
    scope.values |= {each.name: value for each, value in zip(graph.input, inputs, strict=False)}
    shapes = {each.name: shape_of(each) for each in graph.value_info}
    for proto in graph.node:
        with tf.name_scope(_NO_SCOPE.sub("_", proto.name or proto.op_type)):  # a profile tells nodes by it
            results = _results(Node(proto, scope))
        for name, value in zip(proto.output, results, strict=False):
            if shapes.get(name) is not None:
                value.set_shape(shapes[name] or [])
            scope.values[name] = value
    return [scope[each.name] for each in graph.output]


def _results(node: Node) -> list[Value]:
    """Compute a node's outputs; at once where all that goes in is constant, as where weights are put together."""
    constant = all(value is None or value.array is not None for value in node.inputs)
    with tf.init_scope() if constant else contextlib.nullcontext():
        answer = OPERATORS[node.type](node)
        results = [
            each if isinstance(each, Value) else Value(each)
            for each in (answer if isinstance(answer, tuple) else (answer,))
        ]
        return [Value(each.first.numpy()) for each in results] if constant else results


def shape_of(info: onnx.ValueInfoProto) -> list[int | None] | None:
    """The sizes that the file knows, None for each other; None where not even their number is known."""
    described = info.type.tensor_type
    if not described.HasField("shape"):
        return None
    return [size.dim_value if size.HasField("dim_value") else None for size in described.shape.dim]


def _operators(graph: onnx.GraphProto) -> set[str]:
    inner = (_operators(each.g) for node in graph.node for each in node.attribute if each.HasField("g"))
    return {node.op_type for node in graph.node}.union(*inner)


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    return value.decode() if isinstance(value, bytes) else value
