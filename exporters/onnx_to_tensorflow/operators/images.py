"""Operators on images, computed with the channels last: places moved into channels and back, samples at places."""

from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.declaration import FLOATS, dtypes, operator
from exporters.onnx_to_tensorflow.node import Node
from exporters.onnx_to_tensorflow.resampling import Resampling, resampled
from exporters.onnx_to_tensorflow.values import Value


@operator("Resize")
def resize(
    node: Node,
    *,
    scales: Value | None,
    sizes: Value | None,
    axes: list[int] | None,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: int,
    extrapolation_value: float,  # noqa: ARG001 - of a mode that is refused
    antialias: int,
    keep_aspect_ratio_policy: str,
) -> Value:
    node.only(antialias=(antialias, {0}), keep_aspect_ratio_policy=(keep_aspect_ratio_policy, {"stretch"}))
    if node.version < 11:
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    kind = Resampling(mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside))
    return resampled(node, kind, axes, scales, sizes)


@operator("Upsample", since=7)
def upsample(node: Node, *, scales: Value | None, mode: str) -> Value:
    return resampled(node, Resampling(mode, "asymmetric", "floor"), None, scales, None)


@operator("DepthToSpace")
def depth_to_space(node: Node, *, blocksize: int, mode: str | None) -> Value:
    """In mode CRD, a pixel shuffle, the channels of a block lie together; TensorFlow wants them apart."""
    x = node.value(0).last
    node.only(mode=(mode, {None, "DCR", "CRD"}))
    if mode == "CRD":
        order = np.arange(x.shape[-1]).reshape(-1, blocksize * blocksize).T.ravel()
        x = tf.gather(x, order, axis=-1)
    return Value(last=tf.nn.depth_to_space(x, blocksize))


@operator("SpaceToDepth")
def space_to_depth(node: Node, *, blocksize: int, mode: str | None) -> Value:
    node.only(mode=(mode, {None, "DCR"}))
    return Value(last=tf.nn.space_to_depth(node.value(0).last, blocksize))


@operator("RoiAlign", types=dtypes("float32"))
def roi_align(
    node: Node,
    *,
    mode: str,
    coordinate_transformation_mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Value:
    """Mean of bilinear samples in each bin (Mask R-CNN, section 3), by TensorFlow's crop_and_resize.

    A margin of one repeated pixel gives the samples up to one pixel outside the image, which RoIAlign takes from the
    edge; those farther out are 0 in both.
    """
    node.only(mode=(mode, {"avg"}))
    node.require(sampling_ratio > 0, f"with sampling_ratio={sampling_ratio}")
    half = node.version >= 16 and coordinate_transformation_mode == "half_pixel"
    x = node.value(0).last
    bins = np.array([output_height, output_width])
    counts = bins * sampling_ratio
    boxes = node.tensor(1) * spatial_scale - (0.5 if half else 0)
    low, high = tf.reverse(boxes[:, :2], [1]), tf.reverse(boxes[:, 2:], [1])
    spacing = (high - low if half else tf.maximum(high - low, 1.0)) / counts.astype(np.float32)
    begin = low + spacing / 2 + 1
    end = begin + spacing * (counts - 1).astype(np.float32)
    last = tf.cast(tf.shape(x)[1:3] + 1, tf.float32)
    margin = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    places = tf.concat([begin / last, end / last], 1)
    sampled = tf.image.crop_and_resize(margin, places, tf.cast(node.tensor(2), tf.int32), counts)
    return Value(last=tf.nn.avg_pool2d(sampled, sampling_ratio, sampling_ratio, "VALID"))


@operator("GridSample", types=FLOATS)
def grid_sample(node: Node, *, align_corners: int, mode: str, padding_mode: str) -> Value:
    """Samples of an image at a grid of places (Spatial Transformer Networks, section 3.3)."""
    node.only(mode=(mode, {"bilinear", "linear", "nearest"}), padding_mode=(padding_mode, {"zeros", "border"}))
    x, grid = node.value(0).last, node.tensor(1)
    node.require(node.rank(node.value(0)) == 4, "in other than 2 dimensions")
    height, width = tf.shape(x)[1], tf.shape(x)[2]
    across = _pixels(grid[..., 0], width, align_corners=bool(align_corners))
    down = _pixels(grid[..., 1], height, align_corners=bool(align_corners))
    if padding_mode == "border":
        across = tf.clip_by_value(across, 0, tf.cast(width - 1, grid.dtype))
        down = tf.clip_by_value(down, 0, tf.cast(height - 1, grid.dtype))
    if mode == "nearest":
        return Value(last=_picked(x, tf.round(across), tf.round(down)))
    left, top = tf.floor(across), tf.floor(down)
    found = tf.zeros([], x.dtype)
    for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        weight = (1 - tf.abs(across - column)) * (1 - tf.abs(down - row))
        found += _picked(x, column, row) * tf.cast(weight, x.dtype)[..., None]
    return Value(last=found)


def _pixels(places: Any, size: Any, *, align_corners: bool) -> Any:
    """Pixels of places from -1 to 1, which are the centres of the first and last pixel, or their outer edges."""
    count = tf.cast(size, places.dtype)
    return (places + 1) / 2 * (count - 1) if align_corners else ((places + 1) * count - 1) / 2


def _picked(x: Any, columns: Any, rows: Any) -> Any:
    """Return the pixels at whole places; what lies outside is 0."""
    height, width = tf.shape(x)[1], tf.shape(x)[2]
    across, down = tf.cast(columns, tf.int32), tf.cast(rows, tf.int32)
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    places = tf.stack([tf.clip_by_value(down, 0, height - 1), tf.clip_by_value(across, 0, width - 1)], -1)
    picked = tf.gather_nd(x, places, batch_dims=1)
    return tf.where(inside[..., None], picked, tf.zeros_like(picked))
