"""Activations, in whichever layout their input has, and the softmax family over one axis."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, Node, dtypes, operator
from exporters.onnx_to_tensorflow.values import Value, all_of, each_of

PLAIN: dict[str, Callable[[Any], Any]] = {
    "HardSwish": lambda x: x * tf.clip_by_value(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * tf.tanh(tf.math.softplus(x)),
    "Sigmoid": tf.sigmoid,
    "Softplus": tf.math.softplus,
    "Softsign": tf.nn.softsign,
    "Tanh": tf.tanh,
}


@operator(*PLAIN, types=FLOATS)
def plain(node: Node) -> Value:
    return each_of(PLAIN[node.type], node.value(0))


@operator("Relu", types=FLOATS | dtypes("int8", "int16", "int32", "int64"))
def relu(node: Node) -> Value:
    return each_of(tf.nn.relu, node.value(0))


@operator("Elu", types=FLOATS)
def elu(node: Node, *, alpha: float) -> Value:
    return each_of(tf.nn.elu if alpha == 1 else lambda x: tf.where(x > 0, x, alpha * tf.nn.elu(x)), node.value(0))


@operator("Selu", types=FLOATS)
def selu(node: Node, *, alpha: float, gamma: float) -> Value:
    return each_of(lambda x: gamma * tf.where(x > 0, x, alpha * tf.nn.elu(x)), node.value(0))


@operator("Celu", types=FLOATS)
def celu(node: Node, *, alpha: float) -> Value:
    return each_of(lambda x: tf.where(x > 0, x, alpha * tf.nn.elu(x / alpha)), node.value(0))


@operator("LeakyRelu", types=FLOATS)
def leaky_relu(node: Node, *, alpha: float) -> Value:
    return each_of(lambda x: tf.where(x < 0, alpha * x, x), node.value(0))


@operator("PRelu", types=FLOATS, since=7)
def prelu(node: Node) -> Value:
    return all_of(lambda x, slope: tf.where(x < 0, slope * x, x), [node.value(0), node.value(1)])


@operator("ThresholdedRelu", types=FLOATS)
def thresholded_relu(node: Node, *, alpha: float) -> Value:
    return each_of(lambda x: tf.where(x > alpha, x, tf.zeros_like(x)), node.value(0))


@operator("Shrink", types=FLOATS)
def shrink(node: Node, *, lambd: float, bias: float) -> Value:
    return each_of(
        lambda x: tf.where(x < -lambd, x + bias, tf.where(x > lambd, x - bias, tf.zeros_like(x))), node.value(0)
    )


@operator("HardSigmoid", types=FLOATS)
def hard_sigmoid(node: Node, *, alpha: float, beta: float) -> Value:
    return each_of(lambda x: tf.clip_by_value(alpha * x + beta, 0, 1), node.value(0))


@operator("Gelu", types=FLOATS)
def gelu(node: Node, *, approximate: str) -> Value:
    node.only(approximate=(approximate, {"none", "tanh"}))
    return each_of(lambda x: tf.nn.gelu(x, approximate=approximate == "tanh"), node.value(0))


@operator("Swish", types=FLOATS)
def swish(node: Node, *, alpha: float) -> Value:
    return each_of(lambda x: x * tf.sigmoid(alpha * x), node.value(0))


@operator("Softmax", "LogSoftmax", "Hardmax", types=FLOATS)
def softmax(node: Node, *, axis: int) -> Any:
    """Before opset 13 it was taken over all axes from `axis` on, as one."""
    x, rank = node.tensor(0), node.rank(node.value(0))
    axis %= max(rank, 1)
    if node.version >= 13 or axis == rank - 1:
        return _over(node.type, x, axis)
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([shape[:axis], [tf.reduce_prod(shape[axis:])]], 0))
    return tf.reshape(_over(node.type, flat, axis), shape)


def _over(kind: str, x: Any, axis: int) -> Any:
    if kind == "Hardmax":
        size = tf.shape(x)[axis]
        return tf.one_hot(tf.argmax(x, axis), size, axis=axis, dtype=x.dtype)
    return (tf.nn.softmax if kind == "Softmax" else tf.nn.log_softmax)(x, axis=axis)
