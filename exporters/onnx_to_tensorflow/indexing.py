"""Elements picked out and put in by their indices, which in ONNX may count from the end."""

from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.graph import Node, operator


@operator("Gather")
def gather(node: Node) -> Any:
    x, axis = node.tensor(0), node.attributes.get("axis", 0) % node.value(0).rank
    known = node.value(1).static()
    if known is not None and known.ndim == 0:
        return x[(slice(None),) * axis + (int(known),)]
    return tf.gather(x, _from_start(node.tensor(1), tf.shape(x, tf.int64)[axis]), axis=axis)


@operator("GatherElements")
def gather_elements(node: Node) -> Any:
    x, indices = node.tensor(0), node.tensor(1)
    rank = len(x.shape)
    axis = node.attributes.get("axis", 0) % rank
    cuts = [
        slice(size) if place != axis and size is not None and size != x.shape[place] else slice(None)
        for place, size in enumerate(indices.shape)
    ]
    order = [*(place for place in range(rank) if place != axis), axis]
    rows, picks = tf.transpose(x[tuple(cuts)], order), tf.transpose(indices, order)
    found = tf.gather(rows, _from_start(picks, tf.shape(x, tf.int64)[axis]), batch_dims=rank - 1)
    return tf.transpose(found, [order.index(place) for place in range(rank)])


@operator("GatherND")
def gather_nd(node: Node) -> Any:
    node.require(batch_dims=0)
    x, indices = node.tensor(0), node.tensor(1)
    return tf.gather_nd(x, _from_start(indices, tf.shape(x, tf.int64)[: indices.shape[-1]]))


@operator("ScatterElements")
def scatter_elements(node: Node) -> Any:
    node.require(reduction="none")
    x, indices, updates = (node.tensor(index) for index in range(3))
    axis = node.attributes.get("axis", 0) % len(x.shape)
    sizes = tf.shape(indices, tf.int64)
    places = tf.meshgrid(*(tf.range(sizes[place]) for place in range(len(x.shape))), indexing="ij")
    places[axis] = _from_start(indices, tf.shape(x, tf.int64)[axis])
    return tf.tensor_scatter_nd_update(x, tf.stack(places, -1), updates)


@operator("TopK")
def top_k(node: Node) -> Any:
    node.require(largest=1, sorted=1)
    x, count = node.tensor(0), tf.cast(tf.reshape(node.tensor(1), []), tf.int32)
    rank = len(x.shape)
    axis = node.attributes.get("axis", -1) % rank
    if axis == rank - 1:
        return tuple(tf.math.top_k(x, count, index_type=tf.int64))
    order = [*(place for place in range(rank) if place != axis), axis]
    back = [order.index(place) for place in range(rank)]
    found = tf.math.top_k(tf.transpose(x, order), count, index_type=tf.int64)
    return tuple(tf.transpose(each, back) for each in found)


def _from_start(indices: Any, size: Any) -> Any:
    """Count from the start: TensorFlow refuses negative indices."""
    return tf.where(indices < 0, indices + tf.cast(size, indices.dtype), indices)
