"""Reduced precisions: real artifacts that compute in them, agree within their floor and keep their interface."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import exporters
from exporters import pytorch
from exporters.pipeline.registry import exporter
from servemark.documents.request import PRECISIONS
from servemark.errors import ArtifactError, OptionError
from servemark.machine.environment import int8_overflows
from servemark.repository.entry import Entry
from servemark.workload import get, registry
from tests.support.exporting import FROM_TORCH, Exports, loaded
from tests.support.zoo import tiny_of

QUICK = {
    ("ncf", "onnxruntime", "int8"),
    ("ranking", "onnxruntime", "fp16"),
    ("ranking", "onnxruntime", "int8"),
    ("ranking", "pytorch", "bf16"),
    ("ncf", "pytorch", "fp16"),
}
"""Small graphs with and without convolutions, of integers and floats; the others are exported in the slow suite."""
DETECTORS = {"faster_rcnn", "mask_rcnn", "ssd300"}
SPEECH = {"deepspeech", "deepspeech2", "deepspeech_streaming"}
IMPOSSIBLE = {
    ("onnxruntime", "fp16"): {"faster_rcnn_c4"},
    ("onnxruntime", "int8"): DETECTORS
    | SPEECH
    | {"aoa_reader", "enas", "googlenet", "image_compression", "nmt", "nmt_greedy", "summarization"},
    ("pytorch", "fp16"): DETECTORS | {"faster_rcnn_c4", "image_caption_im2txt"},
    ("pytorch", "bf16"): DETECTORS
    | SPEECH
    | {"faster_rcnn_c4", "googlenet", "image_caption_im2txt", "nmt", "nmt_greedy", "seq2seq", "transformer"},
}
"""Tiny workloads that a precision cannot do: a test fails where one of them can, or another cannot."""
SATURATES = {(name, "onnxruntime", "int8") for name in ("faster_rcnn_c4", "minigo", "ranking")}
"""Without VNNI the CPU sums pairs of products in 16 bits, and ONNX Runtime's answers are too far from fp32's."""
REDUCED = [(engine, precision) for engine in FROM_TORCH for precision in exporter(engine).PRECISIONS[1:]]
POSSIBLE = [
    pytest.param(name, engine, precision, marks=[] if (name, engine, precision) in QUICK else pytest.mark.slow)
    for engine, precision in REDUCED
    for name in registry.names()
    if name not in IMPOSSIBLE.get((engine, precision), ())
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, exported: Exports) -> Path:
    """With the ONNX files that are there already."""
    folder = tmp_path_factory.mktemp("repository")
    for source in (exported(f"{name}_tiny", "onnxruntime").folder for name in ("ncf", "ranking")):
        (folder / source.name).symlink_to(source)
    return folder


def exported(repository: Path, name: str, engine: str, precision: str) -> Entry:
    if (name, engine, precision) in SATURATES and int8_overflows():
        pytest.skip("this CPU has no VNNI")
    exporters.export(tiny_of(name), engine, repository, precision=precision)
    return Entry(repository, f"{name}_tiny", engine, precision)


@pytest.mark.parametrize("engine", exporters.engines())
def test_every_precision_is_made_or_refused_with_a_reason(engine: str) -> None:
    module = exporter(engine)
    assert sorted([*module.PRECISIONS, *module.REFUSED]) == sorted(PRECISIONS)
    assert module.PRECISIONS[0] == PRECISIONS[0]
    for precision, reason in module.REFUSED.items():
        with pytest.raises(OptionError, match=re.escape(f"{engine} has no export in {precision}: {reason}")):
            exporters.export(get("ranking_tiny"), engine, Path("nowhere"), precision=precision)
    with pytest.raises(OptionError, match="has no export in fp64: a precision is one of fp32, fp16"):
        exporters.check_precision(engine, "fp64")


@pytest.mark.parametrize(("name", "engine", "precision"), POSSIBLE)
def test_an_artifact_computes_in_its_precision_and_keeps_its_interface(
    repository: Path, name: str, engine: str, precision: str
) -> None:
    entry = exported(repository, name, engine, precision)
    workload, golden, manifest = get(f"{name}_tiny"), entry.read_golden(), entry.read_manifest()
    assert golden is not None
    assert manifest is not None
    assert manifest["precision"] == precision
    assert all(each["agrees"] for outputs in manifest["parity"].values() for each in outputs.values())
    running = loaded(entry, intra_op_thread_count="1")
    if (engine, precision) == ("openvino", "int8"):
        assert running.provider == "CPU int8 (f32 between)"
    assert manifest["output_agreement"]["samples"] == golden.rows
    for rows in (1, 5):
        answer = running.run({key: array[:rows] for key, array in golden.inputs.items()})
        for tensor in workload.outputs:
            assert answer[tensor.name].dtype == tensor.dtype
            assert answer[tensor.name].shape == golden.outputs[tensor.name][:rows].shape
    errors = [each["max_abs"] for outputs in manifest["parity"].values() for each in outputs.values()]
    if any(error is not None for error in errors):
        assert max(error for error in errors if error is not None) > 0  # or it computes in float32


def multiplied(path: Path) -> Counter[str]:
    """In which types a model's products are computed, loops included."""
    import onnx
    import onnx_ir as ir

    kinds: Counter[str] = Counter()
    for node in ir.traversal.RecursiveGraphIterator(ir.from_proto(onnx.load(path)).graph):
        if node.op_type in {"Conv", "Gemm", "MatMul"}:
            weights = node.inputs[1]
            assert weights is not None
            producer = weights.producer()
            int8 = producer is not None and producer.op_type == "DequantizeLinear"
            kinds["int8" if int8 else str(weights.dtype)] += 1
    return kinds


@pytest.mark.parametrize(
    ("name", "precision", "kind"),
    [
        ("ranking", "fp16", "FLOAT16"),
        ("ranking", "int8", "int8"),
        pytest.param("enas", "fp16", "FLOAT16", marks=pytest.mark.slow),  # its products are in a loop
    ],
)
def test_products_are_computed_in_the_precision(repository: Path, name: str, precision: str, kind: str) -> None:
    path = exported(repository, name, "onnxruntime", precision).version / "model.onnx"
    assert set(multiplied(path)) == {kind}


def test_calibration_decides_the_ranges(repository: Path, tmp_path: Path) -> None:
    """Other calibration data, other scales: the ranges are measured, not assumed."""
    import onnx

    from exporters.onnx_passes.quantisation import to_int8

    source = exported(repository, "ncf", "onnxruntime", "fp32")
    golden: Any = source.read_golden()
    batch = {name: array[:4] for name, array in golden.inputs.items()}
    other = {name: np.zeros_like(array) for name, array in batch.items()}
    files = []
    for index, batches in enumerate(([batch], [other])):
        files.append(tmp_path / f"{index}.onnx")
        to_int8(source.version / "model.onnx", files[-1], iter(batches))
    constants = [{each.name: each for each in onnx.load(file).graph.initializer} for file in files]
    scales = [
        {name: onnx.numpy_helper.to_array(each).tolist() for name, each in found.items() if name.endswith("_scale")}
        for found in constants
    ]
    assert scales[0].keys() == scales[1].keys()
    assert scales[0] != scales[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "engine", "precision"),
    [(name, *key) for key, names in IMPOSSIBLE.items() for name in sorted(names)],
)
def test_what_a_precision_cannot_do_says_why(repository: Path, name: str, engine: str, precision: str) -> None:
    with pytest.raises(ArtifactError, match=r"could quantise \d+%|differs from eager PyTorch|not implemented for"):
        exported(repository, name, engine, precision)


def test_a_program_computes_the_same_whatever_the_default_type(repository: Path) -> None:
    """A program in bf16 was traced where bf16 is the default, and runs where float32 is."""
    import torch

    program = torch.export.load(exported(repository, "ranking", "pytorch", "bf16").version / "model.pt2")
    makers = [
        node for node in program.graph.nodes if str(node.target).startswith(("aten.full", "aten.zeros", "aten.ones"))
    ]
    assert makers
    assert all(node.kwargs["dtype"] is not None for node in makers if node.meta["val"].is_floating_point())
    kinds = {str(tensor.dtype) for tensor in program.state_dict.values() if tensor.is_floating_point()}
    assert kinds == {"torch.bfloat16"}


def test_an_error_of_torch_s_without_words_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(pytorch, "_trace", failing)
    job: Any = SimpleNamespace(workload=get("ncf_tiny"), example={}, model=None, precision="fp16")
    with pytest.raises(ArtifactError, match="ncf_tiny cannot be exported in fp16: RuntimeError"):
        pytorch.write(job)
