"""Shapes: changed, cut and joined."""

from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import Node, operator
from exporters.onnx_to_tensorflow.values import Value

FAR = 2**31 - 1
"""An index beyond every dimension: ONNX's way to say "to the end"."""


@operator("Reshape", since=5)
def reshape(node: Node, *, allowzero: int) -> Any:
    x, target = node.tensor(0), node.value(1)
    sizes = target.static()
    if allowzero:
        return tf.reshape(x, target.first)
    kept = tf.shape(x, out_type=tf.int64)
    if sizes is None:
        wanted = target.first
        kept = tf.concat([kept, tf.zeros_like(wanted)], 0)[: tf.size(wanted)]
        return tf.reshape(x, tf.where(tf.equal(wanted, 0), kept, wanted))
    if 0 not in sizes:
        return tf.reshape(x, target.first)
    return tf.reshape(x, [kept[axis] if size == 0 else int(size) for axis, size in enumerate(sizes)])


@operator("Flatten")
def flatten(node: Node, *, axis: int) -> Any:
    x, rank = node.tensor(0), node.rank(node.value(0))
    axis = axis + rank if axis < 0 else axis
    before, after = x.shape[:axis].num_elements(), x.shape[axis:].num_elements()
    if before is None and after is not None:
        return tf.reshape(x, [-1 if after else tf.reduce_prod(tf.shape(x)[:axis]), after])
    rows = tf.reduce_prod(tf.shape(x)[:axis]) if before is None else before
    return tf.reshape(x, [rows, -1 if rows is not None and before else tf.reduce_prod(tf.shape(x)[axis:])])


@operator("Unsqueeze")
def unsqueeze(node: Node, *, axes: Value | None) -> Any:
    x, places = node.tensor(0), node.ints(axes, "axes")
    rank = node.rank(node.value(0)) + len(places)
    for axis in sorted(axis % rank for axis in places):
        x = tf.expand_dims(x, axis)
    return x


@operator("Squeeze")
def squeeze(node: Node, *, axes: Value | None) -> Any:
    x = node.tensor(0)
    if axes is None:
        node.require(x.shape.is_fully_defined(), "without axes, of a size that varies")
        return tf.squeeze(x)
    places = node.ints(axes, "axes")
    return tf.squeeze(x, places) if places else x


@operator("Expand")
def expand(node: Node) -> Any:
    x, target = node.tensor(0), node.tensor(1)
    return tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x, out_type=tf.int64), target))


@operator("Tile", since=6)
def tile(node: Node) -> Any:
    return tf.tile(node.tensor(0), node.tensor(1))


@operator("Transpose")
def transpose(node: Node, *, perm: list[int] | None) -> Any:
    return tf.transpose(node.tensor(0), perm)


@operator("Concat", since=4)
def concat(node: Node, *, axis: int) -> Value:
    values = [node.value(index) for index in range(len(node.inputs))]
    rank = node.rank(values[0])
    if any(value.prefers_last for value in values):
        moved = {0: 0, 1: rank - 1}.get(axis % rank, axis % rank - 1)
        return Value(last=tf.concat([value.last for value in values], moved))
    return Value(tf.concat([value.first for value in values], axis))


@operator("Split", outputs=None, ignored=("num_outputs",))
def split(node: Node, *, axis: int, split: Value | None) -> Any:
    x, axis = node.tensor(0), axis % node.rank(node.value(0))
    if split is not None:
        known = split.static()
        return tuple(tf.split(x, split.first if known is None else known, axis, num=node.outputs))
    size, count = x.shape[axis], node.outputs
    if size is None:  # before opset 18 the parts are equal
        node.require(node.version < 18, "into parts of a size that varies")
        return tuple(tf.split(x, count, axis))
    width = -(-size // count)
    return tuple(tf.split(x, [width] * (count - 1) + [size - width * (count - 1)], axis))


@operator("Slice")
def cut(node: Node, *, starts: Value, ends: Value, axes: Value | None, steps: Value | None) -> Any:
    x = node.tensor(0)
    begins, stops = _bounds(starts), _bounds(ends)
    along = node.ints(axes, "axes", range(len(begins)))
    index = [slice(None)] * node.rank(node.value(0))
    for axis, start, end, step in zip(along, begins, stops, node.ints(steps, "steps", [1] * len(begins)), strict=True):
        index[axis] = slice(start, end, step)
    numbers = not any(tf.is_tensor(each) for each in (*begins, *stops))
    return (node.value(0).picked_sizes(index[0]) if numbers else None) or x[tuple(index)]


def _bounds(value: Value) -> list[Any]:
    """Return numbers where they are known, else scalar tensors, none beyond 32 bits."""
    found = value.static()
    if found is None:
        tensor = value.first
        return list(tf.unstack(tf.clip_by_value(tensor, -FAR, FAR))) if tensor.shape[0] else []
    return [int(each) for each in np.clip(found.ravel().astype(np.int64), -FAR, FAR)]


@operator("Pad", since=2)
def pad(node: Node, *, pads: Value, constant_value: Value | None, axes: Value | None, mode: str) -> Value:
    """Pads below 0 cut."""
    x = node.value(0)
    rank = node.rank(x)
    node.only(mode=(mode, {"constant", "reflect", "edge", "wrap"}))
    if pads.static() is None and mode == "constant" and axes is None:
        return Value(_padded(x.first, tf.transpose(tf.reshape(pads.first, (2, rank))), constant_value))
    amounts = np.zeros((rank, 2), np.int64)
    along = [axis % rank for axis in node.ints(axes, "axes", range(rank))]
    amounts[along] = np.reshape(node.known(pads, "pads"), (2, -1)).T
    last = x.prefers_last
    tensor, amounts = (x.last, amounts[[0, *range(2, rank), 1]]) if last else (x.first, amounts)
    if mode == "constant" or not amounts.any():
        found = _padded(tensor, amounts, constant_value)
    elif mode == "reflect" and amounts.min() >= 0:
        found = tf.pad(tensor, amounts, "REFLECT")
    else:
        node.require(mode != "reflect", f"with mode={mode} and pads below 0")
        found = _repeated(tensor, amounts, mode)
    return Value(last=found) if last else Value(found)


def _padded(x: Any, amounts: Any, constant: Value | None) -> Any:
    """Pad with one value."""
    fill = tf.zeros([], x.dtype) if constant is None else tf.reshape(tf.cast(constant.first, x.dtype), [])
    if not tf.is_tensor(amounts):
        cuts = [slice(int(max(-start, 0)), int(end) if end < 0 else None) for start, end in amounts]
        return tf.pad(x[tuple(cuts)], np.maximum(amounts, 0), constant_values=fill)
    cut = tf.maximum(-amounts, 0)
    kept = tf.slice(x, cut[:, 0], tf.shape(x, amounts.dtype) - cut[:, 0] - cut[:, 1])
    return tf.pad(kept, tf.maximum(amounts, 0), constant_values=fill)


def _repeated(x: Any, amounts: Any, mode: str) -> Any:
    """Go on with the last element of each axis, or from its other end."""
    for axis, (before, after) in enumerate(amounts.tolist()):
        if before or after:
            size = tf.shape(x)[axis]
            places = tf.range(-before, size + after)
            places = tf.clip_by_value(places, 0, size - 1) if mode == "edge" else tf.math.floormod(places, size)
            x = tf.gather(x, places, axis=axis)
    return x
