"""Matrix products and convolutions."""

from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, WHOLE, Node, operator
from exporters.onnx_to_tensorflow.padding import cut_or_pad, padded, pads_of, to_shape
from exporters.onnx_to_tensorflow.values import Value


@operator("MatMul", types=FLOATS | WHOLE)
def matmul(node: Node) -> Any:
    """A matrix on the right is one product of all rows, which is faster than one for each matrix on the left."""
    x, y = node.tensor(0), node.tensor(1)
    if node.rank(node.value(1)) <= 2:
        return tf.tensordot(x, y, 1)
    return tf.matmul(x, y) if node.rank(node.value(0)) > 1 else tf.squeeze(tf.matmul(x[None], y), -2)


@operator("Gemm", types=FLOATS | WHOLE, since=7)
def gemm(node: Node, *, alpha: float, beta: float, transA: int, transB: int) -> Any:  # noqa: N803 - ONNX's names
    weight = node.value(1)
    ahead = bool(transB) and weight.array is not None
    right = weight.transposed if ahead else weight.first
    found = tf.matmul(node.tensor(0), right, transpose_a=bool(transA), transpose_b=bool(transB) and not ahead)
    if alpha != 1:
        found = tf.cast(alpha, found.dtype) * found
    if not node.has(2) or beta == 0:
        return found
    shift = node.tensor(2) if beta == 1 else tf.cast(beta, found.dtype) * node.tensor(2)
    columns = shift.shape[-1] if shift.shape.rank else None
    if columns and columns == found.shape[-1] and found.dtype.is_floating and shift.shape[:-1].num_elements() == 1:
        # With a bias of [1, columns] TensorFlow 2.21 fuses an addition, too, and then refuses it when it runs.
        return tf.nn.bias_add(found, tf.reshape(shift, [columns]))
    return found + shift


@operator("Einsum", types=FLOATS | WHOLE)
def einsum(node: Node, *, equation: str) -> Any:
    return tf.einsum(equation.replace(" ", ""), *(node.tensor(index) for index in range(len(node.inputs))))


@operator("Conv", types=FLOATS, ignored=("kernel_shape",))
def conv(node: Node, *, auto_pad: str, pads: Any, strides: Any, dilations: Any, group: int) -> Value:
    x, filters = node.value(0), node.value(1).filters
    spatial = node.rank(x) - 2
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    size = node.fixed_sizes(filters, range(spatial))
    node.require(spatial < 3 or (set(dilations) == {1} and group == 1), "in 3 dimensions with dilations or groups")
    amounts = pads_of(node, x, auto_pad, pads, strides, [1 + (k - 1) * d for k, d in zip(size, dilations, strict=True)])
    if spatial == 3:
        found = tf.nn.conv3d(padded(x.last, amounts, 0), filters, [1, *strides, 1], "VALID")
    elif spatial == 1:
        around = np.concatenate([[[0, 0]], amounts])
        found = _conv2d(x.last[:, None], filters[None], [1, *strides], around, [1, *dilations], group)[:, 0]
    else:
        node.require(spatial == 2, f"in {spatial} dimensions")
        found = _conv2d(x.last, filters, strides, amounts, dilations, group)
    return Value(last=tf.nn.bias_add(found, node.tensor(2)) if node.has(2) else found)


def _conv2d(x: Any, filters: Any, strides: Any, pads: Any, dilations: Any, group: int) -> Any:
    """Convolve an image; one of each channel by itself has an operator of its own."""
    around = [[0, 0], *pads.tolist(), [0, 0]] if pads.any() else "VALID"
    if group == 1:
        return tf.nn.conv2d(x, filters, strides, around, dilations=dilations)
    rows, columns, within, outputs = filters.shape
    even = strides[0] == strides[1] and (set(dilations) == {1} or set(strides) == {1})
    if within == 1 and even and x.shape[-1] == group:
        # With explicit padding and a bias TensorFlow 2.21 ends the process (tensor_format.h, "Invalid index").
        own = tf.reshape(filters, [rows, columns, group, outputs // group])
        return tf.nn.depthwise_conv2d(padded(x, pads, 0), own, [1, *strides, 1], "VALID", dilations=dilations)
    parts = zip(tf.split(x, group, -1), tf.split(filters, group, -1), strict=True)
    return tf.concat([tf.nn.conv2d(part, own, strides, around, dilations=dilations) for part, own in parts], -1)


@operator("ConvTranspose", types=FLOATS, ignored=("kernel_shape",))
def conv_transpose(
    node: Node,
    *,
    auto_pad: str,
    pads: Any,
    strides: Any,
    dilations: Any,
    group: int,
    output_padding: Any,
    output_shape: Any,
) -> Value:
    """The whole product of the transposed convolution, from which the padding is cut."""
    x, filters = node.value(0), node.value(1).filters
    spatial = node.rank(x) - 2
    node.require(spatial in {1, 2, 3}, f"in {spatial} dimensions")
    strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
    extra = output_padding or [0] * spatial
    filters = _spread(filters, dilations)
    window = node.fixed_sizes(filters, range(spatial))
    image, kernel, steps = x.last, filters, list(strides)
    if spatial == 1:
        image, kernel, steps = image[:, None], kernel[None], [1, *steps]
    parts = (
        zip(tf.split(image, group, -1), tf.split(kernel, group, -1), strict=True) if group > 1 else ((image, kernel),)
    )
    answers = [_transposed(part, own, steps) for part, own in parts]
    found = tf.concat(answers, -1) if group > 1 else answers[0]
    found = found[:, 0] if spatial == 1 else found
    amounts = to_shape(node, x, auto_pad, pads, strides, window, extra, output_shape)
    found = cut_or_pad(found, amounts)
    return Value(last=tf.nn.bias_add(found, node.tensor(2)) if node.has(2) else found)


def _transposed(image: Any, kernel: Any, strides: list[int]) -> Any:
    shape, spatial = tf.shape(image), len(strides)
    whole = [(shape[axis + 1] - 1) * strides[axis] + kernel.shape[axis] for axis in range(spatial)]
    function = {2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[spatial]
    return function(image, kernel, tf.stack([shape[0], *whole, kernel.shape[-2]]), strides, "VALID")


def _spread(filters: Any, dilations: list[int]) -> Any:
    """Put zeros between the elements of a kernel, whose channels are last."""
    for axis, dilation in enumerate(dilations):
        if dilation > 1:
            count = filters.shape[axis]
            places = np.full((count - 1) * dilation + 1, count)
            places[::dilation] = np.arange(count)
            room = [[0, 0]] * len(filters.shape)
            room[axis] = [0, 1]
            filters = tf.gather(tf.pad(filters, room), places, axis=axis)
    return filters
