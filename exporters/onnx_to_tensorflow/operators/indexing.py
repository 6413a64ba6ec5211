"""Elements picked out and put in by their indices, which in ONNX may count from the end."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.node import BOOL, Node, operator
from exporters.onnx_to_tensorflow.values import Value

SCATTERED = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "max": tf.tensor_scatter_nd_max,
    "min": tf.tensor_scatter_nd_min,
}


@operator("Gather")
def gather(node: Node, *, axis: int) -> Any:
    x, axis = node.tensor(0), axis % node.rank(node.value(0))
    known = node.value(1).static()
    if known is not None and (sizes := node.value(0).picked_sizes(known)):
        return sizes
    if known is not None and known.ndim == 0:
        return x[(slice(None),) * axis + (int(known),)]
    return tf.gather(x, _from_start(node.tensor(1), tf.shape(x, tf.int64)[axis]), axis=axis)


@operator("GatherElements")
def gather_elements(node: Node, *, axis: int) -> Any:
    x, indices = node.tensor(0), node.tensor(1)
    rank = node.rank(node.value(0))
    axis %= rank
    sizes, known = tf.shape(indices), indices.shape
    cuts = [
        slice(None)
        if place == axis or (known[place] is not None and known[place] == x.shape[place])
        else slice(sizes[place])
        for place in range(rank)
    ]
    order = [*(place for place in range(rank) if place != axis), axis]
    rows, picks = tf.transpose(x[tuple(cuts)], order), tf.transpose(indices, order)
    found = tf.gather(rows, _from_start(picks, tf.shape(x, tf.int64)[axis]), batch_dims=rank - 1)
    return tf.transpose(found, [order.index(place) for place in range(rank)])


@operator("GatherND")
def gather_nd(node: Node, *, batch_dims: int) -> Any:
    x, indices = node.tensor(0), node.tensor(1)
    batch = batch_dims or 0
    sizes = tf.shape(x, tf.int64)[batch : batch + indices.shape[-1]]
    return tf.gather_nd(x, _from_start(indices, sizes), batch_dims=batch)


@operator("ScatterElements")
def scatter_elements(node: Node, *, axis: int, reduction: str | None) -> Any:
    node.only(reduction=(reduction, {None, *SCATTERED}))
    return _scattered(node, axis, SCATTERED[reduction or "none"])


@operator("Scatter")
def scatter(node: Node, *, axis: int) -> Any:
    """ScatterElements' name before opset 11."""
    return _scattered(node, axis, SCATTERED["none"])


def _scattered(node: Node, axis: int, function: Callable[..., Any]) -> Any:
    x, indices, updates = (node.tensor(index) for index in range(3))
    rank = node.rank(node.value(0))
    axis %= rank
    sizes = tf.shape(indices, tf.int64)
    places = tf.meshgrid(*(tf.range(sizes[place]) for place in range(rank)), indexing="ij")
    places[axis] = tf.cast(_from_start(indices, tf.shape(x, tf.int64)[axis]), tf.int64)
    return function(x, tf.stack(places, -1), updates)


@operator("ScatterND")
def scatter_nd(node: Node, *, reduction: str | None) -> Any:
    node.only(reduction=(reduction, {None, *SCATTERED}))
    x, indices, updates = (node.tensor(index) for index in range(3))
    places = _from_start(indices, tf.shape(x, tf.int64)[: indices.shape[-1]])
    return SCATTERED[reduction or "none"](x, places, updates)


@operator("Compress", types={"T1": BOOL})
def compress(node: Node, *, axis: int | None) -> Any:
    x = node.tensor(0) if axis is not None else tf.reshape(node.tensor(0), [-1])
    return tf.gather(x, tf.where(node.tensor(1))[:, 0], axis=axis or 0)


@operator("ReverseSequence")
def reverse_sequence(node: Node, *, batch_axis: int, time_axis: int) -> Value:
    return Value(tf.reverse_sequence(node.tensor(0), node.tensor(1), seq_axis=time_axis, batch_axis=batch_axis))


def _from_start(indices: Any, size: Any) -> Any:
    """Count from the start: TensorFlow refuses negative indices."""
    indices = indices if indices.dtype in {tf.int32, tf.int64} else tf.cast(indices, tf.int64)
    return tf.where(indices < 0, indices + tf.cast(size, indices.dtype), indices)
