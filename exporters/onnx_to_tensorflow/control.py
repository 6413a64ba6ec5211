"""Loops: `Loop`, which ends when its body says so, and `Scan` over the slices of a tensor."""

from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.graph import Node, Unsupported, operator, run, shape_of
from exporters.onnx_to_tensorflow.values import Value


@operator("Loop")
def loop(node: Node) -> Any:
    body = node.attributes["body"]
    carried = [node.tensor(index) for index in range(2, len(node.inputs))]
    if len(body.output) != 1 + len(carried):
        raise Unsupported("Loop with scan outputs")
    limit = tf.reshape(node.tensor(0), []) if node.has(0) else None
    start = tf.reshape(node.tensor(1), []) if node.has(1) else tf.constant(True)

    def goes_on(step: Any, wanted: Any, *_: Any) -> Any:
        return wanted if limit is None else tf.logical_and(wanted, step < limit)

    def once(step: Any, wanted: Any, *state: Any) -> Any:
        again, *answers = run(body, [Value(each) for each in (step, wanted, *state)], node.scope)
        return (step + 1, tf.reshape(again.first, []), *(answer.first for answer in answers))

    variables = (tf.constant(0, tf.int64), start, *carried)
    scalars = (tf.TensorShape([]), tf.TensorShape([]))
    shapes = [_shared(shape_of(info), tensor) for info, tensor in zip(body.input[2:], carried, strict=True)]
    _, _, *found = tf.while_loop(goes_on, once, variables, shape_invariants=(*scalars, *shapes))
    return tuple(found)


@operator("Scan")
def scan(node: Node) -> Any:
    node.require(num_scan_inputs=1, scan_input_directions=[0], scan_output_directions=[0])
    node.require(scan_input_axes=[0], scan_output_axes=[0])
    body = node.attributes["body"]
    *carried, slices = (node.tensor(index) for index in range(len(node.inputs)))
    count = tf.shape(slices)[0]
    kept = [
        tf.TensorArray(tf.as_dtype(info.type.tensor_type.elem_type), size=count) for info in body.output[len(carried) :]
    ]

    def once(step: Any, state: Any, arrays: Any) -> Any:
        answers = run(body, [Value(each) for each in (*state, slices[step])], node.scope)
        found = [answer.first for answer in answers]
        written = [array.write(step, each) for array, each in zip(arrays, found[len(carried) :], strict=True)]
        return step + 1, found[: len(carried)], written

    _, state, arrays = tf.while_loop(lambda step, *_: step < count, once, (tf.constant(0), carried, kept))
    return (*state, *(array.stack() for array in arrays))


def _shared(known: list[int | None] | None, tensor: Any) -> tf.TensorShape:
    """The sizes that a carried tensor keeps from step to step."""
    if known is None:
        return tensor.shape
    return tf.TensorShape([size if size == now else None for size, now in zip(known, tensor.shape, strict=True)])
