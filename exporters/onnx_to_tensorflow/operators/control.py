"""Branches and loops: `If`, `Loop`, which ends when its body says so, and `Scan` over the slices of tensors."""

from typing import Any

import onnx
import tensorflow as tf
from onnx import helper

from exporters.onnx_to_tensorflow.graph import run, shape_of
from exporters.onnx_to_tensorflow.node import Node, operator
from exporters.onnx_to_tensorflow.values import Value


@operator("If", outputs=None)
def branch(node: Node, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> Any:
    """The condition may be known now, as where it asks for a number of dimensions."""
    known = node.value(0).static()
    if known is not None:
        return tuple(_inside(node, then_branch if known.all() else else_branch, []))
    wanted = tf.reshape(node.tensor(0), [])
    return tuple(
        tf.cond(
            wanted,
            lambda: [each.first for each in _inside(node, then_branch, [])],
            lambda: [each.first for each in _inside(node, else_branch, [])],
        )
    )


@operator("Loop", outputs=None)
def loop(node: Node, *, body: onnx.GraphProto) -> Any:
    carried = [node.tensor(index) for index in range(2, len(node.inputs))]
    kept = body.output[1 + len(carried) :]
    limit = tf.cast(tf.reshape(node.tensor(0), []), tf.int64) if node.has(0) else None
    start = tf.reshape(node.tensor(1), []) if node.has(1) else tf.constant(True)

    def goes_on(step: Any, wanted: Any, *_: Any) -> Any:
        return wanted if limit is None else tf.logical_and(wanted, step < limit)

    def once(step: Any, wanted: Any, state: Any, arrays: Any) -> Any:
        again, *answers = [each.first for each in _inside(node, body, [step, wanted, *state])]
        written = [
            array.write(tf.cast(step, tf.int32), each)
            for array, each in zip(arrays, answers[len(state) :], strict=True)
        ]
        return step + 1, tf.reshape(again, []), answers[: len(state)], written

    arrays = [_array(node, info, dynamic=True) for info in kept]
    scalar = tf.TensorShape([])
    shapes = [_shared(shape_of(info), tensor) for info, tensor in zip(body.input[2:], carried, strict=True)]
    _, _, found, arrays = tf.while_loop(
        goes_on,
        once,
        (tf.constant(0, tf.int64), start, carried, arrays),
        shape_invariants=(scalar, scalar, shapes, [tf.TensorShape(None) for _ in arrays]),
    )
    return (*found, *(array.stack() for array in arrays))


@operator("Scan", outputs=None, since=9)
def scan(
    node: Node,
    *,
    body: onnx.GraphProto,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None,
    scan_output_axes: list[int] | None,
    scan_input_directions: list[int] | None,
    scan_output_directions: list[int] | None,
) -> Any:
    node.require(not any([*(scan_input_axes or []), *(scan_output_axes or [])]), "along other axes than the first")
    node.require(not any([*(scan_input_directions or []), *(scan_output_directions or [])]), "backwards")
    tensors = [node.tensor(index) for index in range(len(node.inputs))]
    carried, slices = tensors[:-num_scan_inputs], tensors[-num_scan_inputs:]
    count = tf.shape(slices[0])[0]
    kept = [_array(node, info, size=count) for info in body.output[len(carried) :]]

    def once(step: Any, state: Any, arrays: Any) -> Any:
        found = [each.first for each in _inside(node, body, [*state, *(each[step] for each in slices)])]
        written = [array.write(step, each) for array, each in zip(arrays, found[len(carried) :], strict=True)]
        return step + 1, found[: len(carried)], written

    _, state, arrays = tf.while_loop(lambda step, *_: step < count, once, (tf.constant(0), carried, kept))
    return (*state, *(array.stack() for array in arrays))


def _inside(node: Node, graph: onnx.GraphProto, tensors: list[Any]) -> list[Value]:
    return run(graph, [Value(each) for each in tensors], node.scope.opset, node.scope)


def _array(node: Node, info: onnx.ValueInfoProto, *, dynamic: bool = False, size: Any = 0) -> Any:
    """An array for what each step adds."""
    node.require(info.type.tensor_type.elem_type != 0, f"with {info.name!r}, whose type the file leaves open")
    kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    known = shape_of(info)
    shape = None if known is None or None in known else known
    return tf.TensorArray(kind, size=size, dynamic_size=dynamic, element_shape=shape, infer_shape=False)


def _shared(known: list[int | None] | None, tensor: Any) -> tf.TensorShape:
    """The sizes that a carried tensor keeps from step to step."""
    if known is None:
        return tensor.shape
    return tf.TensorShape([size if size == now else None for size, now in zip(known, tensor.shape, strict=True)])
