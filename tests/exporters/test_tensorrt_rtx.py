"""NVIDIA's own parser and builder over every network: TensorRT-RTX needs no GPU for that."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

import exporters
from exporters.onnx_passes.half import NOT_IN_BFLOAT16, to_half
from exporters.pipeline.parity import UncheckedError
from exporters.tensorrt_rtx import PRECISIONS, load
from servemark.errors import ArtifactError
from servemark.frameworks.tensorrt import logger, reason
from servemark.frameworks.tensorrt_rtx import RTX, TURING
from servemark.workload import get
from tests.support.onnx_models import model
from tests.support.zoo import exported_names

if TYPE_CHECKING:
    from tests.support.exporting import Exports

pytest.importorskip("tensorrt_rtx_bindings")
QUANTISED = {"int8", "fp8"}
COVERING = {
    "cyclegan_tiny", "deepspeech_streaming_tiny", "densenet121_tiny", "enas_tiny", "image_compression_tiny",
    "mask_rcnn_tiny", "sentiment_tiny", "seq2seq_tiny", "spatial_transformer_tiny", "ssd300_tiny", "transformer_tiny",
}  # fmt: skip
"""Networks that hold every operator of the zoo's files."""
IN_EACH = {"densenet121_tiny", "transformer_tiny"}
"""Those that are built in fp32 and fp16 too: a network in bf16 has layers of both kinds."""


def is_built_here(name: str, precision: str) -> bool:
    """The detectors' own operators are not quantised, and Mask R-CNN's stay in float32 beside either half type."""
    if name == "mask_rcnn_tiny":
        return precision == "fp16"  # a build takes ten seconds
    if precision in {"fp32", "fp16"}:
        return name in IN_EACH
    return name in COVERING and not (name == "ssd300_tiny" and precision in QUANTISED)


def in_each_precision() -> list[Any]:
    """Those that are built here in each precision; the rest in the slow suite, because a build takes seconds.

    In the order from the last, because the tests of parity begin at the first network: in the same order two processes
    would wait for each other's exports.
    """
    return [
        pytest.param(name, precision, marks=each.marks if is_built_here(name, precision) else pytest.mark.slow)
        for each in reversed(exported_names())
        for name in each.values
        for precision in PRECISIONS
    ]


@pytest.mark.timeout(600)  # on a busy machine the largest takes three minutes, half of them for its ONNX file
@pytest.mark.parametrize(("name", "precision"), in_each_precision())
def test_a_network_is_built(exported: "Exports", name: str, precision: str) -> None:
    """Or its quantisation is refused before, because too few of the weights would be quantised.

    The tests of parity begin at the first network: in the same order two processes would wait for each other's exports.
    """
    exported(name, "onnxruntime")
    try:
        report = exporters.export(get(name), "tensorrt_rtx", exported.repository, precision=precision)
    except ArtifactError as error:
        if precision not in QUANTISED or "of the weights" not in error.what:
            raise
        return
    made = report.manifest["format"]
    assert made["layers"] > 10
    assert (report.folder / "1" / "model.plan").stat().st_size > 100_000
    log = (report.folder / "build.log").read_text()
    assert "Engine generation completed" in log
    assert "ERROR" not in log
    shutil.rmtree(report.folder)


def test_few_networks_hold_every_operator(exported: "Exports") -> None:
    held = {
        name: operators(onnx.load(exported(name, "onnxruntime").version / "model.onnx", load_external_data=False).graph)
        for each in exported_names()
        for name in each.values
        if not each.marks
    }
    covered = set().union(*(held[name] for name in COVERING))
    lacking = {name: found - covered for name, found in held.items() if found - covered}
    assert not lacking, "add one of these networks to COVERING"


def operators(graph: onnx.GraphProto) -> set[str]:
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return {node.op_type for node in graph.node}.union(*map(operators, inner))


@pytest.mark.parametrize("operator", [*sorted(NOT_IN_BFLOAT16 - {"GRU"}), "Abs", "Resize", "Sign", "Sqrt"])
def test_an_operator_is_built_in_or_beside_bfloat16(tmp_path: Path, operator: str) -> None:
    """The operators of a file that somebody else made, and those that Mask R-CNN alone has."""
    weights = np.ones((4, 4, 1, 1), np.float32)
    attributes: dict[str, Any] = {"kernel_shape": [1, 1]} if operator == "LpPool" else {}
    inputs = {"ConvTranspose": ["A", "W"], "Resize": ["A", "", "scales"]}.get(operator, ["A"])
    nodes = [
        helper.make_node("Conv", ["X", "W"], ["A"], name="before"),
        helper.make_node(operator, inputs, ["B"], name="between", **attributes),
        helper.make_node("Conv", ["B", "W"], ["Y"], name="after"),
    ]
    sizes: list[str | int | None] = ["batch", 4, 8, 8]
    constants = {"W": weights, "scales": np.array([1, 1, 2, 2], np.float32)}
    onnx.save(model(nodes, {"X": sizes}, ["Y"], constants, opset=21), tmp_path / "m.onnx")
    to_half(tmp_path / "m.onnx", tmp_path / "bf16.onnx", "bf16")
    module = RTX.load()
    builder = module.Builder(logger(RTX))
    network = builder.create_network(1 << int(module.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert module.OnnxParser(network, logger(RTX)).parse_from_file(str(tmp_path / "bf16.onnx")), reason()
    config, shapes = builder.create_builder_config(), builder.create_optimization_profile()
    shapes.set_shape("X", (1, 4, 8, 8), (1, 4, 8, 8), (8, 4, 8, 8))
    config.add_optimization_profile(shapes)
    assert builder.build_serialized_network(network, config), reason()


def test_one_plan_serves_every_gpu_that_has_the_precision(exported: "Exports") -> None:
    exported("din_tiny", "onnxruntime")
    found = {
        precision: exporters.export(get("din_tiny"), "tensorrt_rtx", exported.repository, precision=precision)
        for precision in ("fp32", "fp8")
    }
    served = {name: report.manifest["format"]["compute_capabilities"] for name, report in found.items()}
    assert [tuple(each) for each in served["fp32"]] == [(8, 0), (8, 6), (8, 9), (12, 0), (12, 1)]
    assert [tuple(each) for each in served["fp8"]] == [(8, 9), (12, 0), (12, 1)]


def test_a_turing_has_a_plan_of_its_own_in_fp16(exported: "Exports", monkeypatch: pytest.MonkeyPatch) -> None:
    exported("resnet50_tiny", "onnxruntime")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: TURING)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    monkeypatch.setattr("exporters.tensorrt_rtx.load", unchecked)
    workload = get("resnet50_tiny")
    made = exporters.export(workload, "tensorrt_rtx", exported.repository, precision="fp16", force=True)
    assert made.manifest["format"]["compute_capabilities"] == [TURING]
    with pytest.raises(ArtifactError, match="Tesla T4 has no bf16: its compute capability is"):
        exporters.export(workload, "tensorrt_rtx", exported.repository, precision="bf16", force=True)
    with pytest.raises(ArtifactError, match=r"cannot build resnet50_tiny: .*Turing"):
        exporters.export(workload, "tensorrt_rtx", exported.repository, precision="fp32", force=True)


def unchecked(*_: object) -> None:
    raise UncheckedError("a test has no GPU")


def test_without_a_gpu_a_plan_is_made_and_not_checked(
    exported: "Exports", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exported("ranking_tiny", "onnxruntime")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = exporters.export(get("ranking_tiny"), "tensorrt_rtx", exported.repository)
    assert (report.manifest["parity"], report.manifest["output_agreement"]) == ({}, None)
    assert report.manifest["unchecked"] == "TensorRT-RTX needs an NVIDIA GPU, torch sees none"
    assert exporters.export(get("ranking_tiny"), "tensorrt_rtx", exported.repository).up_to_date
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    with pytest.raises(UncheckedError, match=r"does not run on NVIDIA H100: its compute capability is 9\.0"):
        load(tmp_path / "model.plan", get("ranking_tiny"))
