"""Shapes: read, changed, made, cut and joined."""

from typing import Any

import numpy as np
import tensorflow as tf
from onnx import numpy_helper

from exporters.onnx_to_tensorflow.graph import Node, Unsupported, operator
from exporters.onnx_to_tensorflow.values import Value

FAR = 2**31 - 1
"""An index beyond every dimension: ONNX's way to say "to the end"."""


@operator("Shape")
def shape(node: Node) -> Any:
    found = tf.shape(node.tensor(0), out_type=tf.int64)
    return found[node.attributes.get("start", 0) : node.attributes.get("end")]


@operator("Reshape")
def reshape(node: Node) -> Any:
    x, target = node.tensor(0), node.value(1)
    sizes = target.static()
    if node.attributes.get("allowzero", 0) or sizes is None or 0 not in sizes:
        return tf.reshape(x, target.first)
    kept = tf.shape(x, out_type=tf.int64)
    return tf.reshape(x, [kept[axis] if size == 0 else int(size) for axis, size in enumerate(sizes)])


@operator("Unsqueeze")
def unsqueeze(node: Node) -> Any:
    x, axes = node.tensor(0), node.ints(1)
    rank = len(x.shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = tf.expand_dims(x, axis)
    return x


@operator("Squeeze")
def squeeze(node: Node) -> Any:
    return tf.squeeze(node.tensor(0), node.ints(1) or None)


@operator("Expand")
def expand(node: Node) -> Any:
    x, target = node.tensor(0), node.tensor(1)
    return tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x, out_type=tf.int64), target))


@operator("Tile")
def tile(node: Node) -> Any:
    return tf.tile(node.tensor(0), node.tensor(1))


@operator("Transpose")
def transpose(node: Node) -> Any:
    return tf.transpose(node.tensor(0), node.attributes.get("perm"))


@operator("Concat")
def concat(node: Node) -> Value:
    values = [node.value(index) for index in range(len(node.inputs))]
    rank, axis = values[0].rank, node.attributes["axis"]
    if any(value.prefers_last for value in values):
        moved = {0: 0, 1: rank - 1}.get(axis % rank, axis % rank - 1)
        return Value(last=tf.concat([value.last for value in values], moved))
    return Value(tf.concat([value.first for value in values], axis))


@operator("Split")
def split(node: Node) -> Any:
    x, axis = node.tensor(0), node.attributes.get("axis", 0)
    return tuple(tf.split(x, node.ints(1) or node.outputs, axis, num=node.outputs))


@operator("Slice")
def cut(node: Node) -> Any:
    x = node.tensor(0)
    starts, ends = _bounds(node, 1), _bounds(node, 2)
    axes = node.ints(3, range(len(starts)))
    steps = node.ints(4, [1] * len(starts))
    index = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


@operator("Pad")
def pad(node: Node) -> Value:
    x, mode = node.value(0), node.attributes.get("mode", "constant").upper()
    amounts = np.zeros((x.rank, 2), np.int64)
    amounts[node.ints(3, range(x.rank))] = np.reshape(node.static(1), (2, -1)).T
    if amounts.min() < 0 or mode not in {"CONSTANT", "REFLECT"}:
        raise Unsupported(f"Pad with mode={mode.lower()} and pads {amounts.tolist()}")
    fill = tf.reshape(node.tensor(2), []) if node.has(2) else tf.zeros([], x.first.dtype)
    if not x.prefers_last:
        return Value(tf.pad(x.first, amounts, mode, fill))
    return Value(last=tf.pad(x.last, amounts[[0, *range(2, x.rank), 1]], mode, fill))


@operator("ConstantOfShape")
def constant_of_shape(node: Node) -> Any:
    value = node.attributes.get("value")
    return tf.fill(node.tensor(0), np.float32(0) if value is None else numpy_helper.to_array(value).ravel()[0])


@operator("Range")
def span(node: Node) -> Any:
    return tf.range(*(tf.reshape(node.tensor(index), []) for index in range(3)))


@operator("Trilu")
def triangle(node: Node) -> Any:
    x, offset = node.tensor(0), node.ints(1, [0])[0]
    rows, columns = tf.range(tf.shape(x)[-2])[:, None], tf.range(tf.shape(x)[-1])
    kept = columns - rows >= offset if node.attributes.get("upper", 1) else columns - rows <= offset
    return tf.where(kept, x, tf.zeros_like(x))


def _bounds(node: Node, index: int) -> list[Any]:
    """Return numbers where they are known, None for "to the end", else scalar tensors."""
    found = node.value(index).static()
    if found is None:
        tensor = node.tensor(index)
        return list(tf.unstack(tf.minimum(tensor, FAR))) if tensor.shape[0] else []
    return [None if abs(int(each)) >= FAR else int(each) for each in found]
