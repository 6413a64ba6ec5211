"""Matrix products and the normalisations between them."""

from typing import Any

import tensorflow as tf

from exporters.onnx_to_tensorflow.graph import Node, operator
from exporters.onnx_to_tensorflow.values import Value


@operator("MatMul")
def matmul(node: Node) -> Any:
    """A matrix on the right is one product of all rows, which is faster than one for each matrix on the left."""
    x, y = node.tensor(0), node.tensor(1)
    return tf.tensordot(x, y, 1) if node.value(1).rank == 2 else tf.matmul(x, y)


@operator("Gemm")
def gemm(node: Node) -> Any:
    node.require(alpha=1.0, transA=0)
    weight = node.value(1)
    transposed = bool(node.attributes.get("transB", 0))
    ahead = transposed and weight.array is not None
    right = weight.transposed if ahead else weight.first
    found = tf.matmul(node.tensor(0), right, transpose_b=transposed and not ahead)
    if not node.has(2):
        return found
    node.require(beta=1.0)
    return tf.nn.bias_add(found, node.tensor(2)) if node.value(2).rank == 1 else found + node.tensor(2)


@operator("LayerNormalization")
def layer_normalization(node: Node) -> Any:
    node.require(axis=-1)
    x = node.tensor(0)
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    shift = node.tensor(2) if node.has(2) else None
    return tf.nn.batch_normalization(x, mean, variance, shift, node.tensor(1), node.attributes.get("epsilon", 1e-5))


@operator("BatchNormalization")
def batch_normalization(node: Node) -> Any:
    """In inference: TensorFlow fuses the one for images into the convolution before it."""
    node.require(training_mode=0)
    x, epsilon = node.value(0), node.attributes.get("epsilon", 1e-5)
    scale, shift, mean, variance = (node.tensor(index) for index in range(1, 5))
    if x.rank == 4:
        found, *_ = tf.compat.v1.nn.fused_batch_norm(
            x.last, scale, shift, mean, variance, epsilon=epsilon, is_training=False
        )
        return Value(last=found)
    last = x.first if x.rank == 2 else x.last
    found = tf.nn.batch_normalization(last, mean, variance, shift, scale, epsilon)
    return found if x.rank == 2 else Value(last=found)


@operator("InstanceNormalization")
def instance_normalization(node: Node) -> Value:
    x = node.value(0)
    mean, variance = tf.nn.moments(x.last, axes=list(range(1, x.rank - 1)), keepdims=True)
    epsilon = node.attributes.get("epsilon", 1e-5)
    return Value(last=tf.nn.batch_normalization(x.last, mean, variance, node.tensor(2), node.tensor(1), epsilon))
