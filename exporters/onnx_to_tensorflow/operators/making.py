"""Tensors made of constants, shapes and numbers."""

from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

from exporters.onnx_to_tensorflow.node import ANY, FLOATS, WHOLE, Node, dtypes, operator
from exporters.onnx_to_tensorflow.values import Value


@operator("Constant")
def constant(
    node: Node,
    *,
    value: onnx.TensorProto | None,
    value_float: float | None,
    value_floats: list[float] | None,
    value_int: int | None,
    value_ints: list[int] | None,
) -> Value:
    if value is not None:
        array = numpy_helper.to_array(value)
        node.require(array.dtype in ANY, f"of {onnx.TensorProto.DataType.Name(value.data_type)}")
        return Value(array)
    floats = value_float if value_floats is None else value_floats
    if floats is not None:
        return Value(np.asarray(floats, np.float32))
    whole = value_int if value_ints is None else value_ints
    node.require(whole is not None, "without a value")
    return Value(np.asarray(whole, np.int64))


@operator("ConstantOfShape")
def constant_of_shape(node: Node, *, value: onnx.TensorProto | None) -> Any:
    fill = np.float32(0) if value is None else numpy_helper.to_array(value).ravel()[0]
    node.require(fill.dtype in ANY, f"of {fill.dtype}")
    return tf.fill(node.tensor(0), fill)


@operator("Shape")
def shape(node: Node, *, start: int, end: int | None) -> Any:
    x = node.value(0)
    sizes = x.shape[start:end] if x.has_rank else None
    found = Value(tf.shape(x.first, out_type=tf.int64)[start:end], sizes=sizes)
    return found.picked_sizes(slice(None)) or found


@operator("Size")
def size(node: Node) -> Any:
    return tf.size(node.tensor(0), out_type=tf.int64)


@operator("Range", types=FLOATS | WHOLE | dtypes("int16"), ignored=("stash_type",))
def span(node: Node) -> Any:
    bounds = [tf.reshape(node.tensor(index), []) for index in range(3)]
    wide = tf.int32 if bounds[0].dtype == tf.int16 else bounds[0].dtype
    return tf.cast(tf.range(*(tf.cast(each, wide) for each in bounds)), bounds[0].dtype)


@operator("EyeLike")
def eye_like(node: Node, *, dtype: int | None, k: int) -> Any:
    x = node.tensor(0)
    kind = x.dtype if dtype is None else tf.as_dtype(helper.tensor_dtype_to_np_dtype(dtype))
    rows, columns = tf.range(tf.shape(x)[0])[:, None], tf.range(tf.shape(x)[1])
    return tf.cast(tf.equal(columns - rows, k), kind)


@operator("Trilu")
def triangle(node: Node, *, k: Value | None, upper: int) -> Any:
    x = node.tensor(0)
    offset = tf.zeros([], tf.int64) if k is None else tf.reshape(k.first, [])
    sizes = tf.shape(x, tf.int64)
    rows, columns = tf.range(sizes[-2])[:, None], tf.range(sizes[-1])
    kept = columns - rows >= offset if upper else columns - rows <= offset
    return tf.where(kept, x, tf.zeros_like(x))


@operator("OneHot", types={"T1": FLOATS | WHOLE | dtypes("int8", "uint8"), "T3": ANY})
def one_hot(node: Node, *, axis: int) -> Any:
    """Indices may count from the end; one that lies outside is nowhere."""
    depth = tf.cast(tf.reshape(node.tensor(1), []), tf.int64)
    indices = tf.cast(node.tensor(0), tf.int64)
    off, on = tf.unstack(node.tensor(2), 2)
    found = tf.where(indices < 0, indices + depth, indices)
    return tf.one_hot(found, tf.cast(depth, tf.int32), on, off, axis if axis >= 0 else axis % (len(found.shape) + 1))


@operator("NonZero")
def non_zero(node: Node) -> Any:
    node.require(node.rank(node.value(0)) > 0, "of a scalar")
    x = node.tensor(0)
    return tf.transpose(tf.where(x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))))


@operator("TopK", types=FLOATS | WHOLE, outputs=2, ignored=("sorted",))
def top_k(node: Node, *, k: Value | None, axis: int, largest: int | None) -> Any:
    """Of equal ones the first is taken first."""
    node.require(k is not None, "without K")
    x, count = node.tensor(0), tf.cast(tf.reshape(k.first if k else 0, []), tf.int32)
    rank = node.rank(node.value(0))
    axis %= rank
    order = [*(place for place in range(rank) if place != axis), axis]
    back = [order.index(place) for place in range(rank)]
    rows = x if axis == rank - 1 else tf.transpose(x, order)
    smallest = largest == 0
    values, indices = tf.math.top_k(_falling(rows) if smallest else rows, count, index_type=tf.int64)
    found = (_falling(values) if smallest else values, indices)
    return found if axis == rank - 1 else tuple(tf.transpose(each, back) for each in found)


def _falling(x: Any) -> Any:
    """Turn the order of all numbers round, also of the least whole one, which has no negative."""
    return -x if x.dtype.is_floating else tf.bitwise.invert(x)
