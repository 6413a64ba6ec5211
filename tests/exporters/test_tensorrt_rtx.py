"""NVIDIA's own parser and builder over every network: TensorRT-RTX needs no GPU for that."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import exporters
from exporters.pipeline.parity import UncheckedError
from exporters.tensorrt_rtx import PRECISIONS, load
from servemark.errors import ArtifactError
from servemark.frameworks.tensorrt_rtx import TURING
from servemark.workload import get
from tests.support.zoo import exported_names

if TYPE_CHECKING:
    from tests.support.exporting import Exports

pytest.importorskip("tensorrt_rtx_bindings")
QUANTISED = {"int8", "fp8"}
HEAVY = {"mask_rcnn_tiny", "video_prediction_tiny"}
"""Networks that take half of the time of all together: the fast suite builds them once."""
OTHERWISE_IN_BFLOAT16 = {f"{name}_tiny" for name in ("aoa_reader", "cyclegan", "deepspeech2", "fcn8s", "seq2seq")}
"""Some of the networks with GRUs or transposed convolutions; others are built in bfloat16 as in float16."""


def builds() -> Iterator[Any]:
    """Every network that has a tiny variant, in every precision; those that add little are slow."""
    for case in exported_names():
        (name,) = case.values
        for precision in PRECISIONS:
            adds = precision == "fp16" or name not in HEAVY
            adds &= precision != "bf16" or name in OTHERWISE_IN_BFLOAT16
            yield pytest.param(name, precision, marks=[*case.marks, *([] if adds else [pytest.mark.slow])])


@pytest.mark.parametrize(("name", "precision"), builds())
def test_every_network_is_built(exported: "Exports", name: str, precision: str) -> None:
    """Or its quantisation is refused before, because too few of the weights would be quantised."""
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
