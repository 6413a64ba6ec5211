"""Pooling, computed with the channels last."""

from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, Node, dtypes, operator
from exporters.onnx_to_tensorflow.padding import padded, pads_of
from exporters.onnx_to_tensorflow.values import Value


class Windows:
    """The windows of a pooling operator."""

    def __init__(
        self, node: Node, kernel_shape: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any, ceil_mode: int
    ) -> None:
        x = node.value(0)
        spatial = node.rank(x) - 2
        node.require(spatial in {1, 2, 3}, f"in {spatial} dimensions")
        self.size = list(kernel_shape)
        self.strides = list(strides or [1] * spatial)
        self.dilations = list(dilations or [1] * spatial)
        widths = [1 + (size - 1) * dilation for size, dilation in zip(self.size, self.dilations, strict=True)]
        self.pads = pads_of(node, x, auto_pad, pads, self.strides, widths)
        self.beyond = np.zeros_like(self.pads)
        """The elements that a last window needs behind the padding."""
        if ceil_mode and auto_pad in {"NOTSET", "VALID"}:
            self.beyond[:, 1] = _to_whole(node, x.last, widths, self.strides, self.pads)

    def pool(self, x: Any, kind: str, outside: float) -> Any:
        """Pool what is padded with `outside`."""
        return self.over(padded(x, self.pads + self.beyond, outside), kind)

    def over(self, x: Any, kind: str) -> Any:
        """Pool what is padded already."""
        every = (slice(None), *(slice(None, None, stride) for stride in self.strides))
        if set(self.size) == {1}:  # every so-many-th element, which TensorFlow's pooling refuses
            return x[every]
        if set(self.dilations) == {1}:
            return tf.nn.pool(x, self.size, kind, self.strides, "VALID")
        return tf.nn.pool(x, self.size, kind, [1] * len(self.size), "VALID", dilations=self.dilations)[every]

    def counts(self, x: Any, *, with_padding: bool) -> Any:
        """Return the share of each window that counts: within the image, or the padding too."""
        ones = tf.ones_like(x[:1, ..., :1])
        inside = padded(ones, self.pads, 1 if with_padding else 0)
        return self.over(padded(inside, self.beyond, 0), "AVG")


def _to_whole(node: Node, x: Any, widths: list[int], strides: list[int], pads: Any) -> list[int]:
    """Return the padding that a last window needs if it starts within the image or the padding before it."""
    missing = []
    for size, width, stride, (before, after) in zip(node.sizes(x)[1:-1], widths, strides, pads.tolist(), strict=True):
        if size is None:
            raise node.unsupported("with ceil_mode=1 over a size that varies")
        steps = -(-(size + before + after - width) // stride)
        if steps * stride >= size + before:
            steps -= 1
        missing.append(max(0, steps * stride + width - (size + before + after)))
    return missing


@operator("MaxPool", types=FLOATS | dtypes("int8", "uint8"), ignored=("storage_order",))
def max_pool(
    node: Node, *, kernel_shape: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any, ceil_mode: int
) -> Value:
    """TensorFlow pools no 8 bits; float32 holds them."""
    windows, x = Windows(node, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode), node.value(0).last
    exact = x if x.dtype.is_floating else tf.cast(x, tf.float32)
    return Value(last=tf.cast(windows.pool(exact, "MAX", -np.inf), x.dtype))


@operator("AveragePool", types=FLOATS)
def average_pool(
    node: Node,
    *,
    kernel_shape: Any,
    strides: Any,
    dilations: Any,
    auto_pad: str,
    pads: Any,
    ceil_mode: int,
    count_include_pad: int,
) -> Value:
    windows, x = Windows(node, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode), node.value(0).last
    found = windows.pool(x, "AVG", 0)
    if windows.beyond.any() or (windows.pads.any() and not count_include_pad):
        found /= windows.counts(x, with_padding=bool(count_include_pad))
    return Value(last=found)


@operator("LpPool", types=FLOATS)
def lp_pool(
    node: Node, *, kernel_shape: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any, ceil_mode: int, p: int
) -> Value:
    windows, x = Windows(node, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode), node.value(0).last
    found = windows.pool(tf.abs(x) ** p, "AVG", 0) * float(np.prod(windows.size))
    return Value(last=found ** (1 / p))


@operator("GlobalAveragePool", "GlobalMaxPool", types=FLOATS)
def global_pool(node: Node) -> Value:
    x = node.value(0)
    function = tf.reduce_mean if node.type == "GlobalAveragePool" else tf.reduce_max
    return Value(last=function(x.last, axis=list(range(1, node.rank(x) - 1)), keepdims=True))


@operator("GlobalLpPool", types=FLOATS, since=2)
def global_lp_pool(node: Node, *, p: int) -> Value:
    x = node.value(0)
    found = tf.reduce_sum(tf.abs(x.last) ** p, axis=list(range(1, node.rank(x) - 1)), keepdims=True)
    return Value(last=found ** (1 / p))
