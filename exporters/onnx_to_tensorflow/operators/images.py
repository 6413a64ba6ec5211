"""Operators on images, computed with the channels last: resized, moved into channels and back, sampled at places.

A resize goes axis by axis: each output element is a weighted sum of a few of the input's, at ONNX's places.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from exporters.onnx_to_tensorflow.node import FLOATS, Node, dtypes, operator
from exporters.onnx_to_tensorflow.values import Value

PLACES = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}
ROUNDING = {
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "round_prefer_floor": lambda at: tf.math.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: tf.floor(at + 0.5),
}


@dataclass(frozen=True)
class Resampling:
    """The rule by which places are found and elements weighed, in ONNX's words."""

    mode: str
    places: str
    nearest: str
    cubic: float = -0.75
    exclude_outside: bool = False


@dataclass(frozen=True)
class _Axis:
    """One axis: its sizes, numbers or scalar tensors, and how much it is stretched."""

    size: Any
    target: Any
    scale: Any
    exact: bool
    """The scale is the quotient of the sizes."""


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
    return _resized(node, kind, axes, scales, sizes)


@operator("Upsample", since=7)
def upsample(node: Node, *, scales: Value | None, mode: str) -> Value:
    return _resized(node, Resampling(mode, "asymmetric", "floor"), None, scales, None)


def _resized(node: Node, kind: Resampling, axes: list[int] | None, scales: Value | None, sizes: Value | None) -> Value:
    """Resize to sizes, or by scales. Raises Unsupported."""
    node.only(
        mode=(kind.mode, {"nearest", "linear", "cubic"}),
        coordinate_transformation_mode=(kind.places, PLACES),
        nearest_mode=(kind.nearest, ROUNDING),
    )
    x = node.value(0)
    rank = node.rank(x)
    node.require(kind.mode == "nearest" or x.dtype in FLOATS, f"with mode={kind.mode} of {x.dtype}")
    changed: dict[int, _Axis] = {}
    for number, axis in enumerate(axes or range(rank)):
        found = _axis(node, x, axis % rank, number, scales, sizes)
        if tf.is_tensor(found.scale) or found.scale != 1:
            even = found.exact or kind.places != "align_corners"
            node.require(even, "with align_corners and a scale to no whole size")  # ONNX and ONNX Runtime differ
            changed[axis % rank] = found
    if rank > 2 and not {0, 1} & set(changed):
        quick = _by_tensorflow(x, changed, kind) if rank == 4 else None
        return Value(
            last=_all(x.last, {axis - 1: each for axis, each in changed.items()}, kind) if quick is None else quick
        )
    return Value(_all(x.first, changed, kind))


def _axis(node: Node, x: Value, axis: int, number: int, scales: Value | None, sizes: Value | None) -> _Axis:
    """Find out what becomes of an axis; what is known of it stays a number."""
    place = axis if not x.prefers_last else {0: 0, 1: x.rank - 1}.get(axis, axis - 1)
    tensor = x.last if x.prefers_last else x.first
    known = node.sizes(tensor)[place]
    size: Any = tf.shape(tensor)[place] if known is None else known
    given = sizes if sizes is not None and sizes.has_elements else scales
    if given is None or not given.has_elements:
        raise node.unsupported("without scales and sizes")
    fixed = given.static()
    number_of = given.first[number] if fixed is None else fixed[number]
    if given is sizes:
        if known is None or fixed is None:
            target = tf.cast(number_of, tf.int32)
            return _Axis(size, target, tf.cast(target, tf.float32) / tf.cast(size, tf.float32), exact=True)
        return _Axis(size, int(number_of), np.float32(number_of) / np.float32(size), exact=True)
    if fixed is None:
        raise node.unsupported("with scales that are computed")
    if known is None:
        target = tf.cast(tf.floor(tf.cast(size, tf.float32) * number_of), tf.int32)
        return _Axis(size, target, number_of, exact=float(number_of).is_integer())
    found = int(np.floor(np.float32(size) * number_of))
    return _Axis(size, found, number_of, exact=bool(found == size * number_of))


def _by_tensorflow(x: Value, changed: Mapping[int, _Axis], kind: Resampling) -> Any:
    """Return what TensorFlow's own operators give, which are quicker, where they mean the same; else None."""
    if not all(each.exact for each in changed.values()):
        return None
    shape = tf.shape(x.last)
    wanted = tf.stack([changed[axis].target if axis in changed else shape[axis - 1] for axis in (2, 3)])
    if (kind.mode, kind.places, kind.nearest) == ("nearest", "asymmetric", "floor"):
        return tf.compat.v1.image.resize_nearest_neighbor(x.last, wanted)
    if kind.mode == "linear" and kind.places in {"half_pixel", "asymmetric"} and x.dtype == np.float32:
        half = kind.places == "half_pixel"
        return tf.raw_ops.ResizeBilinear(images=x.last, size=wanted, half_pixel_centers=half)
    return None


def _all(x: Any, changed: Mapping[int, _Axis], kind: Resampling) -> Any:
    for axis, found in changed.items():
        x = _along(x, axis, found, kind)
    return x


def _along(x: Any, axis: int, found: _Axis, kind: Resampling) -> Any:
    last = tf.cast(found.size, tf.float32) - 1
    at = _places(found, kind.places)
    if kind.mode == "nearest":
        return _taken(x, axis, ROUNDING[kind.nearest](at), last)
    if kind.mode == "linear":
        at = tf.clip_by_value(at, 0.0, last)
    low = tf.floor(at)
    far = at - low
    taps = [(low, 1 - far), (low + 1, far)] if kind.mode == "linear" else _cubic(low, far, kind.cubic)
    if kind.mode == "cubic" and kind.exclude_outside:
        taps = [(place, tf.where((place >= 0) & (place <= last), weight, 0.0)) for place, weight in taps]
        total = sum(weight for _, weight in taps)
        taps = [(place, weight / total) for place, weight in taps]
    around = [1] * (len(x.shape) - axis - 1)
    return sum(
        _taken(x, axis, place, last) * tf.cast(tf.reshape(weight, [-1, *around]), x.dtype) for place, weight in taps
    )


def _places(found: _Axis, kind: str) -> Any:
    """Place each output element in the input (ONNX's Resize, coordinate_transformation_mode)."""
    size, target = tf.cast(found.size, tf.float32), tf.cast(found.target, tf.float32)
    number = tf.cast(tf.range(found.target), tf.float32)
    if kind == "asymmetric":
        return number / found.scale
    if kind == "align_corners":
        return number * tf.math.divide_no_nan(size - 1, target - 1)
    half = (number + 0.5) / found.scale - 0.5
    if kind == "half_pixel_symmetric":
        return half + size / 2 * (1 - target / (found.scale * size))
    return tf.where(target > 1, half, 0.0) if kind == "pytorch_half_pixel" else half


def _cubic(low: Any, far: Any, a: float) -> list[tuple[Any, Any]]:
    """Return four elements with their weights (Keys 1981)."""

    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def outer(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [(low - 1, outer(far + 1)), (low, near(far)), (low + 1, near(1 - far)), (low + 2, outer(2 - far))]


def _taken(x: Any, axis: int, places: Any, last: Any) -> Any:
    return tf.gather(x, tf.cast(tf.clip_by_value(places, 0.0, last), tf.int32), axis=axis)


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
