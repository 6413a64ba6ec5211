"""Padding of images around convolutions and pooling, channels last."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import Node
from exporters.onnx_to_tensorflow.values import Value


def pads_of(node: Node, x: Value, auto_pad: str, pads: Any, strides: Sequence[int], window: Sequence[int]) -> Any:
    """Padding before and after, [spatial, 2], for windows of these widths. Raises Unsupported."""
    spatial = len(strides)
    node.only(auto_pad=(auto_pad, {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}))
    if auto_pad == "VALID":
        return np.zeros((spatial, 2), np.int64)
    if auto_pad == "NOTSET":
        return np.reshape(pads or [0] * 2 * spatial, (2, spatial)).T.copy()
    amounts = []
    for size, stride, width in zip(node.sizes(x.last)[1:-1], strides, window, strict=True):
        if size is None and stride > 1:
            raise node.unsupported(f"with auto_pad={auto_pad} and strides over a size that varies")
        missing = max(0, (width - 1) if size is None else (-(-size // stride) - 1) * stride + width - size)
        amounts.append(_halves(missing, more_after=auto_pad == "SAME_UPPER"))
    return np.array(amounts)


def to_shape(
    node: Node,
    x: Value,
    auto_pad: str,
    pads: Any,
    strides: Sequence[int],
    window: Sequence[int],
    extra: Sequence[int],
    shape: Any,
) -> Any:
    """Padding that a transposed convolution cuts off before and after, [spatial, 2]. Raises Unsupported."""
    if shape is None and auto_pad in {"NOTSET", "VALID"}:
        amounts = pads_of(node, x, auto_pad, pads, strides, window)
        amounts[:, 1] -= extra
        return amounts
    amounts, sizes = [], node.sizes(x.last)[1:-1]
    for axis, (size, stride, width) in enumerate(zip(sizes, strides, window, strict=True)):
        if shape is None:
            total = width - stride
        elif size is None:
            raise node.unsupported("with output_shape of a size that varies")
        else:
            total = stride * (size - 1) + width - int(shape[-len(strides) + axis])
        before, after = _halves(total + extra[axis], more_after=auto_pad == "SAME_UPPER")
        amounts.append((before, after - extra[axis]))
    return np.array(amounts)


def padded(x: Any, pads: Any, outside: float) -> Any:
    """Pad an image with one value."""
    if not pads.any():
        return x
    return tf.pad(x, [[0, 0], *pads.tolist(), [0, 0]], constant_values=tf.cast(outside, x.dtype))


def cut_or_pad(x: Any, amounts: Any) -> Any:
    """Cut amounts off an image before and after; below 0 they are zeros that are added."""
    x = padded(x, np.maximum(-amounts, 0), 0)
    cuts = [slice(int(max(start, 0)), -int(end) if end > 0 else None) for start, end in amounts]
    return x[(slice(None), *cuts)]


def _halves(total: int, *, more_after: bool) -> tuple[int, int]:
    return (total // 2, total - total // 2) if more_after else (total - total // 2, total // 2)
