"""Operators on images, computed with the channels last."""

from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.graph import Node, Unsupported, operator
from exporters.onnx_to_tensorflow.values import Value


@operator("Conv")
def conv(node: Node) -> Value:
    node.require(auto_pad="NOTSET", group=1)
    x, filters = node.value(0), node.constant(1).filters
    spatial = x.rank - 2
    strides = node.attributes.get("strides", [1] * spatial)
    dilations = node.attributes.get("dilations", [1] * spatial)
    pads = _pads(node, spatial)
    if spatial == 2:
        around = [[0, 0], *pads.tolist(), [0, 0]] if pads.any() else "VALID"
        found = tf.nn.conv2d(x.last, filters, strides, around, dilations=dilations)
    else:
        found = tf.nn.convolution(_padded(x.last, pads, 0), filters, strides, "VALID", dilations=dilations)
    return Value(last=tf.nn.bias_add(found, node.tensor(2)) if node.has(2) else found)


@operator("ConvTranspose")
def conv_transpose(node: Node) -> Value:
    """The whole product of the transposed convolution, from which the padding is cut."""
    node.require(auto_pad="NOTSET", group=1)
    x, filters = node.value(0), node.constant(1).filters
    spatial = x.rank - 2
    node.require(dilations=[1] * spatial)
    strides = node.attributes.get("strides", [1] * spatial)
    shape = tf.shape(x.last)
    whole = [(shape[axis + 1] - 1) * strides[axis] + filters.shape[axis] for axis in range(spatial)]
    channels = filters.shape[-2]
    transposed = {2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[spatial]
    found = transposed(x.last, filters, tf.stack([shape[0], *whole, channels]), strides, "VALID")
    pads = _pads(node, spatial)
    pads[:, 1] -= node.attributes.get("output_padding", [0] * spatial)
    found = _padded(found, np.maximum(-pads, 0), 0)
    cuts = [slice(int(max(start, 0)), -int(end) if end > 0 else None) for start, end in pads]
    found = found[(slice(None), *cuts)]
    return Value(last=tf.nn.bias_add(found, node.tensor(2)) if node.has(2) else found)


@operator("MaxPool")
def max_pool(node: Node) -> Value:
    return _pool(node, "MAX", -np.inf)


@operator("AveragePool")
def average_pool(node: Node) -> Value:
    if np.any(node.attributes.get("pads", 0)):
        node.require(count_include_pad=1)
    node.require(ceil_mode=0)
    return _pool(node, "AVG", 0.0)


def _pool(node: Node, kind: str, outside: float) -> Value:
    x = node.value(0)
    spatial = x.rank - 2
    node.require(auto_pad="NOTSET", dilations=[1] * spatial)
    window = node.attributes["kernel_shape"]
    strides = node.attributes.get("strides", [1] * spatial)
    pads = _pads(node, spatial)
    if node.attributes.get("ceil_mode", 0):
        pads[:, 1] += _to_whole_windows(x.last, window, strides, pads)
    padded = _padded(x.last, pads, outside)
    if set(window) == {1}:  # every so-many-th element, which TensorFlow's pooling refuses
        return Value(last=padded[(slice(None), *(slice(None, None, stride) for stride in strides))])
    return Value(last=tf.nn.pool(padded, window, kind, strides, "VALID"))


def _to_whole_windows(x: Any, window: list[int], strides: list[int], pads: Any) -> list[int]:
    """Return the padding that a last window needs if it starts within the image or the padding before it."""
    missing = []
    for size, width, stride, (before, after) in zip(x.shape[1:-1], window, strides, pads.tolist(), strict=True):
        if size is None:
            raise Unsupported("pooling with ceil_mode over a size that varies")
        steps = -(-(size + before + after - width) // stride)
        if steps * stride >= size + before:
            steps -= 1
        missing.append(max(0, steps * stride + width - (size + before + after)))
    return missing


@operator("Resize")
def resize(node: Node) -> Value:
    node.require(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    if not node.has(3):
        raise Unsupported("Resize by scales")
    sizes = tf.cast(node.tensor(3)[2:], tf.int32)
    return Value(last=tf.compat.v1.image.resize_nearest_neighbor(node.value(0).last, sizes))


@operator("DepthToSpace")
def depth_to_space(node: Node) -> Value:
    """In mode CRD, a pixel shuffle, the channels of a block lie together; TensorFlow wants them apart."""
    x, block = node.value(0).last, node.attributes["blocksize"]
    if node.attributes.get("mode", "DCR") == "CRD":
        order = np.arange(x.shape[-1]).reshape(-1, block * block).T.ravel()
        x = tf.gather(x, order, axis=-1)
    return Value(last=tf.nn.depth_to_space(x, block))


@operator("RoiAlign")
def roi_align(node: Node) -> Value:
    """Mean of bilinear samples in each bin (Mask R-CNN, section 3), by TensorFlow's crop_and_resize.

    A margin of one repeated pixel gives the samples up to one pixel outside the image, which RoIAlign takes from the
    edge; those farther out are 0 in both.
    """
    node.require(mode="avg", coordinate_transformation_mode="output_half_pixel")
    x = node.value(0).last
    samples = node.attributes["sampling_ratio"]
    if samples == 0:
        raise Unsupported("RoiAlign with sampling_ratio=0")
    bins = np.array([node.attributes["output_height"], node.attributes["output_width"]])
    counts = bins * samples
    boxes = node.tensor(1) * node.attributes["spatial_scale"]
    low, high = tf.reverse(boxes[:, :2], [1]), tf.reverse(boxes[:, 2:], [1])
    spacing = tf.maximum(high - low, 1.0) / counts.astype(np.float32)
    begin = low + spacing / 2 + 1
    end = begin + spacing * (counts - 1).astype(np.float32)
    last = tf.cast(tf.shape(x)[1:3] + 1, tf.float32)
    margin = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    places = tf.concat([begin / last, end / last], 1)
    sampled = tf.image.crop_and_resize(margin, places, tf.cast(node.tensor(2), tf.int32), counts)
    return Value(last=tf.nn.avg_pool2d(sampled, samples, samples, "VALID"))


@operator("GridSample")
def grid_sample(node: Node) -> Value:
    """Bilinear samples at a grid of places (Spatial Transformer Networks, section 3.3); what lies outside is 0."""
    node.require(align_corners=1, mode="bilinear", padding_mode="zeros")
    x, grid = node.value(0).last, node.tensor(1)
    height, width = tf.shape(x)[1], tf.shape(x)[2]
    across = (grid[..., 0] + 1) / 2 * tf.cast(width - 1, grid.dtype)
    down = (grid[..., 1] + 1) / 2 * tf.cast(height - 1, grid.dtype)
    left, top = tf.floor(across), tf.floor(down)
    found = tf.zeros([], x.dtype)
    for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        weight = (1 - tf.abs(across - column)) * (1 - tf.abs(down - row))
        across_at, down_at = tf.cast(column, tf.int32), tf.cast(row, tf.int32)
        inside = (across_at >= 0) & (across_at < width) & (down_at >= 0) & (down_at < height)
        places = tf.stack([tf.clip_by_value(down_at, 0, height - 1), tf.clip_by_value(across_at, 0, width - 1)], -1)
        picked = tf.gather_nd(x, places, batch_dims=1)
        found += picked * tf.where(inside, weight, 0.0)[..., None]
    return Value(last=found)


def _pads(node: Node, spatial: int) -> Any:
    """Padding before and after, for each spatial dimension."""
    return np.reshape(node.attributes.get("pads", [0] * 2 * spatial), (2, spatial)).T.copy()


def _padded(x: Any, pads: Any, outside: float) -> Any:
    if not pads.any():
        return x
    return tf.pad(x, [[0, 0], *pads.tolist(), [0, 0]], constant_values=tf.cast(outside, x.dtype))
