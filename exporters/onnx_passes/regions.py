"""RoiAlign by operators that every builder has: where TensorRT's plugin asks CUDA for the GPU, none is needed then.

He et al. 2017, "Mask R-CNN", section 3: the mean of bilinear samples in each cell of a region.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir import tape

from exporters.onnx_passes import graphs
from servemark.errors import ArtifactError

OPSET = 18
"""The first whose ReduceMean takes its axes as an input; the conversion writes out what an older RoiAlign means."""


class _Operators(tape.Tape):
    """Makes nodes by their operators' names."""

    def __getattr__(self, name: str) -> Callable[..., ir.Value]:
        return lambda *inputs, **attributes: self.op(name, inputs, attributes)


Samples = tuple[tuple[ir.Value, ir.Value], tuple[ir.Value, ir.Value]]
"""Samples along one axis of the picture, [regions, cells x samples]: the pixels beside each, and their shares."""


def without_roi_align(source: Path, target: Path) -> bool:
    """Write the graph of `source` with each RoiAlign replaced; False, and nothing is written, where it has none.

    Raises ArtifactError where one takes maxima, or as many samples as a region is large.
    """
    if not _found(ir.load(source)):
        return False
    model = graphs.load(source, opset=OPSET)
    for node in _found(model):
        op = _Operators()
        answer = _mean_of_samples(op, node)
        assert isinstance(node.graph, ir.Graph)
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], op.nodes, [node.outputs[0]], [answer])
    ir.save(model, target)
    return True


def _found(model: ir.Model) -> list[ir.Node]:
    return [node for node in graphs.every_node(model) if node.op_type == "RoiAlign"]


def _mean_of_samples(op: _Operators, node: ir.Node) -> ir.Value:
    image, regions, pictures = (value for value in node.inputs if value is not None)
    high, wide = (graphs.integer(node, name, 1) for name in ("output_height", "output_width"))
    each = graphs.integer(node, "sampling_ratio")
    mode = node.attributes["mode"].as_string() if "mode" in node.attributes else "avg"
    if mode != "avg" or not each:
        raise ArtifactError(
            f"{node.name}: RoiAlign with mode {mode} and sampling_ratio {each} cannot be written by other operators",
            fix="make the model with the mean of a fixed number of samples, as torchvision's detectors do",
        )
    shape = op.Shape(image)
    channels, height, width = (op.Slice(shape, _const(op, [at]), _const(op, [at + 1])) for at in (1, 2, 3))
    down = _samples(op, node, regions, 1, height, high, each)
    across = _samples(op, node, regions, 0, width, wide, each)
    pixels = op.Reshape(op.Transpose(image, perm=[0, 2, 3, 1]), op.Concat(_const(op, [-1]), channels, axis=0))
    first = op.Mul(op.Cast(pictures, to=ir.DataType.INT64), op.Mul(height, width))
    first = op.Unsqueeze(first, _const(op, [1, 2]))
    parts = []
    for row, row_share in zip(*down, strict=True):
        for column, column_share in zip(*across, strict=True):
            in_row = op.Unsqueeze(op.Mul(row, width), _const(op, [2]))
            at = op.Add(first, op.Add(in_row, op.Unsqueeze(column, _const(op, [1]))))
            share = op.Mul(op.Unsqueeze(row_share, _const(op, [2])), op.Unsqueeze(column_share, _const(op, [1])))
            parts.append(op.Mul(op.Gather(pixels, at, axis=0), op.Unsqueeze(share, _const(op, [3]))))
    count = op.Slice(op.Shape(regions), _const(op, [0]), _const(op, [1]))
    cells = op.Reshape(op.Sum(*parts), op.Concat(count, _const(op, [high, each, wide, each]), channels, axis=0))
    mean = op.ReduceMean(cells, _const(op, [2, 4]), keepdims=0)
    return op.Transpose(mean, perm=[0, 3, 1, 2])


def _samples(
    op: _Operators, node: ir.Node, regions: ir.Value, axis: int, extent: ir.Value, cells: int, each: int
) -> Samples:
    """Place the samples of an axis (0: x, 1: y) as ONNX's RoiAlign does; those outside of the picture count nothing."""
    pixel = "coordinate_transformation_mode" not in node.attributes or (
        node.attributes["coordinate_transformation_mode"].as_string() == "half_pixel"
    )
    scale = node.attributes["spatial_scale"].as_float() if "spatial_scale" in node.attributes else 1.0
    ends = [
        op.Sub(
            op.Mul(op.Slice(regions, _const(op, [at]), _const(op, [at + 1]), _const(op, [1])), _real(op, scale)),
            _real(op, 0.5 if pixel else 0.0),
        )
        for at in (axis, axis + 2)
    ]
    length = op.Sub(ends[1], ends[0])
    if not pixel:
        length = op.Max(length, _real(op, 1.0))
    steps = (np.arange(cells * each, dtype=np.float32) + 0.5) / (cells * each)
    place = op.Add(ends[0], op.Mul(length, _real(op, steps)))
    size = op.Cast(extent, to=ir.DataType.FLOAT)
    inside = op.And(op.GreaterOrEqual(place, _real(op, -1.0)), op.LessOrEqual(place, size))
    last = op.Sub(size, _real(op, 1.0))
    place = op.Min(op.Max(place, _real(op, 0.0)), last)
    low = op.Floor(place)
    high = op.Min(op.Add(low, _real(op, 1.0)), last)
    counts, share = op.Cast(inside, to=ir.DataType.FLOAT), op.Sub(place, low)
    return (
        (op.Cast(low, to=ir.DataType.INT64), op.Cast(high, to=ir.DataType.INT64)),
        (op.Mul(op.Sub(_real(op, 1.0), share), counts), op.Mul(share, counts)),
    )


def _const(op: _Operators, numbers: list[int]) -> ir.Value:
    return op.Constant(value=ir.tensor(np.array(numbers, np.int64)))


def _real(op: _Operators, numbers: npt.ArrayLike) -> ir.Value:
    return op.Constant(value=ir.tensor(np.array(numbers, np.float32)))
