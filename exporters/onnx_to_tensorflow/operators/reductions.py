"""Reductions over axes, and what runs along one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import BOOL, FLOATS, NUMBERS, WHOLE, Node, Types, dtypes, operator
from exporters.onnx_to_tensorflow.values import Value

PLAIN = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
"""Those that keep a single element as it is."""
ORDERED = FLOATS | WHOLE | BOOL | dtypes("int8", "uint8")
REDUCTIONS: dict[str, tuple[Callable[..., Any], Types]] = {
    "ReduceL1": (lambda x, **of: tf.reduce_sum(tf.abs(x), **of), FLOATS | WHOLE),
    "ReduceL2": (tf.math.reduce_euclidean_norm, FLOATS),
    "ReduceLogSum": (lambda x, **of: tf.math.log(tf.reduce_sum(x, **of)), FLOATS),
    "ReduceLogSumExp": (tf.reduce_logsumexp, FLOATS),
    "ReduceMax": (lambda x, **of: (tf.reduce_any if x.dtype == tf.bool else tf.reduce_max)(x, **of), ORDERED),
    "ReduceMean": (tf.reduce_mean, FLOATS),
    "ReduceMin": (lambda x, **of: (tf.reduce_all if x.dtype == tf.bool else tf.reduce_min)(x, **of), ORDERED),
    "ReduceProd": (tf.reduce_prod, FLOATS | WHOLE),
    "ReduceSum": (tf.reduce_sum, FLOATS | WHOLE),
    "ReduceSumSquare": (lambda x, **of: tf.reduce_sum(x * x, **of), FLOATS | WHOLE),
}


def _reduction(node: Node, *, axes: Value | None, keepdims: int, noop_with_empty_axes: int) -> Value:
    x, keep = node.value(0), bool(keepdims)
    rank = node.rank(x)
    function = REDUCTIONS[node.type][0]
    if axes is not None and axes.static() is None and axes.has_elements:
        return _over(function, x.first, axes.first, keep=keep)
    given = node.ints(axes, "axes") if axes is not None and axes.has_elements else []
    if not given and noop_with_empty_axes:
        node.require(node.type in PLAIN, "with noop_with_empty_axes=1 and no axes")
        return x
    over = sorted(axis % rank for axis in given or range(rank))
    spatial = over == list(range(2, rank))
    if not x.prefers_last or not (keep or spatial):
        return Value(function(x.first, axis=over, keepdims=keep))
    moved = [{0: 0, 1: rank - 1}.get(axis, axis - 1) for axis in over]
    found = function(x.last, axis=moved, keepdims=keep)
    return Value(last=found) if keep else Value(found)


def _over(function: Callable[..., Any], x: Any, axes: Any, *, keep: bool) -> Value:
    """Reduce over axes that are computed; their number is known."""
    count = axes.shape[0]
    if count is None:
        raise ValueError("the number of axes is computed")
    found = function(x, axis=axes, keepdims=keep)
    found.set_shape([None] * (len(x.shape) - (0 if keep else count)))
    return Value(found)


for _name, (_, _types) in REDUCTIONS.items():
    operator(_name, types=_types)(_reduction)


@operator("ArgMax", "ArgMin", types=NUMBERS)
def argmax(node: Node, *, axis: int, keepdims: int, select_last_index: int) -> Any:
    x = node.tensor(0)
    axis %= node.rank(node.value(0))
    function = tf.argmax if node.type == "ArgMax" else tf.argmin
    if select_last_index:
        found = tf.shape(x, tf.int64)[axis] - 1 - function(tf.reverse(x, [axis]), axis=axis, output_type=tf.int64)
    else:
        found = function(x, axis=axis, output_type=tf.int64)
    return tf.expand_dims(found, axis) if keepdims else found


@operator("CumSum", "CumProd", types=FLOATS | WHOLE)
def accumulated(node: Node, *, exclusive: int, reverse: int) -> Any:
    function = tf.cumsum if node.type == "CumSum" else tf.math.cumprod
    axis = tf.reshape(node.tensor(1), [])
    return function(node.tensor(0), axis=axis, exclusive=bool(exclusive), reverse=bool(reverse))


@operator("LpNormalization", types=FLOATS)
def lp_normalization(node: Node, *, axis: int, p: int) -> Any:
    """A vector of norm 0 stays 0."""
    x = node.tensor(0)
    norm = tf.norm(x, ord=p, axis=axis, keepdims=True)
    return tf.math.divide_no_nan(x, norm)


@operator("MatMulInteger", types=dtypes("int8", "uint8"))
def matmul_integer(node: Node) -> Any:
    """Products of 8 bits in 32; a zero point is of all, of each row on the left, or of each column on the right."""

    def shifted(index: int, axis: int) -> Any:
        x = tf.cast(node.tensor(index), tf.int32)
        if not node.has(index + 2):
            return x
        zero = tf.cast(node.tensor(index + 2), tf.int32)
        return x - (tf.expand_dims(zero, axis) if len(zero.shape) == 1 and np.prod(zero.shape) != 1 else zero)

    return tf.matmul(shifted(0, 1), shifted(1, 0))
