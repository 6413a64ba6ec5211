"""RoiAlign written by other operators answers what ONNX Runtime's own does."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from exporters.onnx_passes.regions import without_roi_align
from servemark.errors import ArtifactError
from tests.support.onnx_models import by_onnxruntime

CHANNELS, HIGH, WIDE = 4, 3, 5


def saved(path: Path, operator: str = "RoiAlign", opset: int = 18, **attributes: Any) -> Path:
    """A model of one node, with open sizes."""
    names = ["X", "regions", "pictures"] if operator == "RoiAlign" else ["X"]
    node = helper.make_node(operator, names, ["Y"], name="regions_of_interest", **attributes)
    inputs = [
        helper.make_tensor_value_info("X", TensorProto.FLOAT, ["batch", CHANNELS, "h", "w"]),
        helper.make_tensor_value_info("regions", TensorProto.FLOAT, ["count", 4]),
        helper.make_tensor_value_info("pictures", TensorProto.INT64, ["count"]),
    ][: len(names)]
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["a", "b", "c", "d"])]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


@pytest.mark.parametrize("count", [0, 20])
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize(("mode", "opset"), [("half_pixel", 18), ("output_half_pixel", 18), (None, 18), (None, 11)])
def test_answers_are_roi_align_s(tmp_path: Path, mode: str | None, opset: int, samples: int, count: int) -> None:
    """Also of regions that lie outside of the picture, have no size, or are none; before opset 16 it has no modes."""
    form: dict[str, Any] = {
        "output_height": HIGH,
        "output_width": WIDE,
        "spatial_scale": 0.25,
        "sampling_ratio": samples,
    }
    form |= {"coordinate_transformation_mode": mode} if mode else {}
    source = saved(tmp_path / "source.onnx", opset=opset, **form)
    target = tmp_path / "target.onnx"
    assert without_roi_align(source, target)
    onnx.checker.check_model(target, full_check=True)
    assert "RoiAlign" not in {node.op_type for node in onnx.load(target).graph.node}
    rng = np.random.default_rng(0)
    regions = rng.uniform(-10, 60, (count, 4)).astype(np.float32)
    regions[:, 2:] = np.maximum(regions[:, 2:], regions[:, :2])
    image = rng.standard_normal((2, CHANNELS, 9, 11)).astype(np.float32)
    inputs = {"X": image, "regions": regions, "pictures": rng.integers(0, 2, count)}
    wanted = by_onnxruntime(source, inputs)["Y"]
    assert wanted.shape == (count, CHANNELS, HIGH, WIDE)
    np.testing.assert_allclose(by_onnxruntime(target, inputs)["Y"], wanted, atol=1e-5)


@pytest.mark.parametrize("form", [{"mode": "max", "sampling_ratio": 2}, {"sampling_ratio": 0}])
def test_what_cannot_be_written_so_is_named(tmp_path: Path, form: dict[str, Any]) -> None:
    source = saved(tmp_path / "source.onnx", **form)
    with pytest.raises(ArtifactError, match="regions_of_interest: RoiAlign with mode"):
        without_roi_align(source, tmp_path / "target.onnx")


def test_a_graph_without_regions_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target.onnx"
    assert not without_roi_align(saved(tmp_path / "source.onnx", "Relu"), target)
    assert not target.exists()
