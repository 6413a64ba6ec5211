"""Normalisations between layers."""

from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, Node, dtypes, operator
from exporters.onnx_to_tensorflow.values import Value


@operator("LayerNormalization", types=FLOATS, outputs=3, ignored=("stash_type",))
def layer_normalization(node: Node, *, axis: int, epsilon: float) -> Any:
    """With the mean and one over the deviation as further outputs.

    TensorFlow 2.x makes one operator of oneDNN's of `tf.nn.batch_normalization`, in which epsilon is always 0.001.
    """
    x, rank = node.tensor(0), node.rank(node.value(0))
    mean, variance = tf.nn.moments(x, axes=list(range(axis % rank, rank)), keepdims=True)
    factor = tf.math.rsqrt(variance + epsilon)
    found = (x - mean) * factor * node.tensor(1)
    found = found + node.tensor(2) if node.has(2) else found
    return (found, mean, factor) if node.wants(1) or node.wants(2) else found


@operator("BatchNormalization", types=FLOATS, since=7, ignored=("momentum",))
def batch_normalization(node: Node, *, epsilon: float, training_mode: int) -> Any:
    """In inference: TensorFlow fuses the one for images into the convolution before it."""
    node.only(training_mode=(training_mode, {None, 0}))
    x = node.value(0)
    scale, shift, mean, variance = (node.tensor(index) for index in range(1, 5))
    rank = node.rank(x)
    if rank == 4 and {each.dtype for each in node.inputs if each} == dtypes("float32"):
        found = tf.raw_ops.FusedBatchNormV3(  # tf.nn's raises a small epsilon
            x=x.last, scale=scale, offset=shift, mean=mean, variance=variance, epsilon=epsilon, is_training=False
        )
        return Value(last=found.y)
    last = x.first if rank <= 2 else x.last
    found = tf.nn.batch_normalization(last, mean, variance, shift, scale, epsilon)
    return Value(found) if rank <= 2 else Value(last=found)


@operator("InstanceNormalization", types=FLOATS)
def instance_normalization(node: Node, *, epsilon: float) -> Value:
    x = node.value(0)
    mean, variance = tf.nn.moments(x.last, axes=list(range(1, node.rank(x) - 1)), keepdims=True)
    return Value(last=tf.nn.batch_normalization(x.last, mean, variance, node.tensor(2), node.tensor(1), epsilon))


@operator("LRN", types=dtypes("float32"))
def local_response_normalization(node: Node, *, alpha: float, beta: float, bias: float, size: int) -> Value:
    x = node.value(0)
    node.require(size % 2 == 1 and node.rank(x) == 4, f"with size={size} in {node.rank(x)} dimensions")
    return Value(last=tf.nn.local_response_normalization(x.last, size // 2, bias, alpha / size, beta))


@operator("QuantizeLinear", types=dtypes("float32"), ignored=("saturate",))
def quantize(node: Node, *, axis: int, block_size: int, output_dtype: int, precision: int) -> Value:
    node.only(
        block_size=(block_size, {None, 0}), output_dtype=(output_dtype, {None, 0}), precision=(precision, {None, 0})
    )
    x, scale, zero = _scaled(node, axis, tf.uint8)
    bounds = zero.dtype
    node.require(bounds in {tf.uint8, tf.int8, tf.uint16, tf.int16}, f"to {bounds.name}")
    found = tf.round(x / scale) + tf.cast(zero, tf.float32)
    return Value(tf.cast(tf.clip_by_value(found, bounds.min, bounds.max), bounds))


@operator("DequantizeLinear", types=dtypes("int8", "uint8", "int16", "uint16", "int32"))
def dequantize(node: Node, *, axis: int, block_size: int, output_dtype: int) -> Value:
    node.only(block_size=(block_size, {None, 0}), output_dtype=(output_dtype, {None, 0}))
    node.require(node.value(1).dtype in dtypes("float32"), f"to {node.value(1).dtype}")
    x, scale, zero = _scaled(node, axis, None)
    return Value(tf.cast(tf.cast(x, tf.int32) - tf.cast(zero, tf.int32), tf.float32) * scale)


def _scaled(node: Node, axis: int | None, default: Any) -> tuple[Any, Any, Any]:
    """Return the tensor, and scale and zero point, one of all or of each slice of `axis`, as they broadcast to it."""
    x, scale, rank = node.tensor(0), node.tensor(1), node.rank(node.value(0))
    zero = node.tensor(2) if node.has(2) else tf.zeros_like(scale, default or x.dtype)
    if len(scale.shape) == 0 or scale.shape == [1]:
        return x, tf.reshape(scale, []), tf.reshape(zero, [])
    node.require(len(scale.shape) == 1, "with blocks")
    place = 1 if axis is None else axis % rank
    sizes = [-1 if each == place else 1 for each in range(rank)]
    return x, tf.reshape(scale, sizes), tf.reshape(zero, sizes)
