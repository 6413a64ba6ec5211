"""OpenVINO: the intermediate representation (model.xml, model.bin), converted from the ONNX file."""

import contextlib
import io
import logging
import math
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from exporters.pipeline.job import Job, Run
from servemark.errors import ArtifactError
from servemark.frameworks import OPENVINO_PRECISION
from servemark.workload import Arrays, Workload

if TYPE_CHECKING:
    import openvino

ARTIFACT = "model.xml"
PACKAGES = ("openvino", "nncf", "onnx", "onnxscript")
EXTRA = "openvino"
PRECISIONS = ("fp32", "fp16", "bf16", "int8")
REFUSED = {"fp8": "on a CPU OpenVINO would compute it in a wider type: fp8 in name only"}
FROM_ONNX = PRECISIONS
READS = ("tensorflow",)
DEVICE = "cpu"
WITHOUT_GPU = True

FIX = "use fp32, fp16 or bf16"
COMPUTES_IN = {"fp32": "f32", "fp16": "f32", "bf16": "bf16", "int8": "f32"}
"""Precision -> the type in which OpenVINO runs what is a floating-point operator in the file."""


def write(job: Job) -> Mapping[str, object]:
    """Write model.xml and model.bin: fp16 and bf16 differ from fp32 in the weights or the type computed in alone.

    fp16 stores weights of 16 bits, which a CPU computes in fp32. int8 is NNCF's post-training static quantisation of
    convolutions and products with its default settings, and leaves the rest in fp32.
    """
    import openvino

    try:
        model = openvino.Core().read_model(str(job.origin))
    except RuntimeError as error:
        raise _refusal("convert", job.workload, error) from error
    _keep_slices(model)
    if job.precision == "int8":
        model = _quantised(model, job)
    model.set_rt_info(COMPUTES_IN[job.precision], OPENVINO_PRECISION)
    openvino.save_model(model, str(job.path), compress_to_fp16=job.precision == "fp16")
    weights = {"fp16": "f16", "int8": "i8 where quantised, else f32"}.get(job.precision, "f32")
    written: dict[str, object] = {"ir_version": 11, "weights": weights, "computes_in": COMPUTES_IN[job.precision]}
    if job.precision == "int8":
        written["int8_share_of_weights"] = round(_int8_share(job), 3)
    return written


def load(path: Path, workload: Workload) -> Run:
    """Compile for the CPU as servers.engines.openvino does. Raises ArtifactError where the CPU has no such type."""
    import openvino

    core = openvino.Core()
    model = core.read_model(str(path))
    precision = str(model.get_rt_info(OPENVINO_PRECISION).astype(str))
    if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise ArtifactError("this CPU has no bf16 instructions", fix="export bf16 on a machine whose CPU has them")
    try:
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": precision})
    except RuntimeError as error:
        raise _refusal("run", workload, error) from error
    names = [tensor.name for tensor in workload.outputs]

    def run(inputs: Arrays) -> Arrays:
        answer = compiled(inputs)
        return {name: answer[name] for name in names}

    return run


def _refusal(verb: str, workload: Workload, error: Exception) -> ArtifactError:
    """Quote OpenVINO without the places in its sources, which come first."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("Exception from")]
    return ArtifactError(
        f"OpenVINO cannot {verb} {workload.name}: {' '.join(lines)}",
        fix="docs/reference/support.md lists what each engine runs",
    )


def _keep_slices(model: "openvino.Model") -> None:
    """Turn a slice before GatherElements into a split.

    OpenVINO 2026.4 takes such a slice away when it compiles (its pass EliminateSliceBeforeGatherElements), also where
    it cuts another axis than the one that is picked along, and then refuses the shapes.
    """
    from openvino import opset8

    for node in model.get_ordered_ops():
        cut = node.input_value(0).get_node() if node.get_type_name() == "GatherElements" else node
        if cut is node or cut.get_type_name() != "Slice":
            continue
        data, start, stop, step, axes = (cut.input_value(place) for place in range(5))
        known = [getattr(each.get_node(), "data", None) for each in (start, stop, step, axes)]
        if any(each is None or each.size != 1 for each in known):
            continue
        first, end, stride, axis = (int(each.item()) for each in known if each is not None)
        if (first, stride) == (0, 1) and end > 0:
            parts = opset8.variadic_split(data, np.int64(axis), np.array([end, -1], np.int64))
            node.input(0).replace_source_output(parts.output(0))


def _quantised(model: "openvino.Model", job: Job) -> "openvino.Model":
    """Quantise with the workload's calibration samples."""
    os.environ.setdefault("NNCF_CI", "1")  # else the package reports each use to its makers over the network
    # says at its import, on behalf of nncf's kernels for PyTorch, that there is no CUDA
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix

    nncf.set_log_level(logging.ERROR)
    samples = list(job.calibration())
    # 7 bits of each weight: without VNNI (Intel before 2019, AMD before Zen 4) sums of two 8-bit products overflow.
    parameters = AdvancedQuantizationParameters(overflow_fix=OverflowFix.ENABLE)
    with contextlib.redirect_stdout(io.StringIO()):  # its progress bars
        try:
            dataset = nncf.Dataset(samples)
            return nncf.quantize(_reread(model), dataset, subset_size=len(samples), advanced_parameters=parameters)
        except Exception as error:  # its exceptions have no base of their own
            raise _refusal("quantise", job.workload, error) from error


def _int8_share(job: Job) -> float:
    """Share of the weights that are quantised; tables that are only looked up in are none. Raises ArtifactError."""
    from exporters.onnx_passes.quantisation import MIN_SHARE

    quantised, left = 0, Counter[str]()
    for graph in ElementTree.parse(job.path).iter():  # noqa: S314 - written just now; the bodies of loops too
        layers = graph.findall("layers/layer")
        kinds = {layer.get("id"): layer.get("type", "") for layer in layers}
        readers = {edge.get("from-layer"): kinds[edge.get("to-layer")] for edge in graph.findall("edges/edge")}
        for layer in layers:
            reader = readers.get(layer.get("id"), "")
            if layer.get("type") == "Const" and reader != "Gather":
                attributes = layer.find("data")
                assert attributes is not None
                shape = [int(size) for size in attributes.get("shape", "").split(",") if size.strip()]
                kind = attributes.get("element_type")
                if len(shape) > 1 and kind in {"i8", "u8"}:
                    quantised += math.prod(shape)
                elif len(shape) > 1 and kind == "f32":
                    left[reader] += math.prod(shape)
    total = quantised + left.total()
    if not total:
        raise ArtifactError(
            "OpenVINO finds no constant weights to quantise: the graph computes them, or has none", fix=FIX
        )
    share = quantised / total
    if share < MIN_SHARE:
        others = ", ".join(
            f"{kind} {count / total:.0%}" for kind, count in left.most_common() if count / total >= 0.005
        )
        raise ArtifactError(
            f"OpenVINO could quantise {share:.0%} of the weights; NNCF leaves as they are those of: {others}", fix=FIX
        )
    return share


def _reread(model: "openvino.Model") -> "openvino.Model":
    """Write the model and read it, so that the body of a loop has constants of its own.

    As read from ONNX it shares them with the graph around it, where nncf 3.4 then looks for the body's operators.
    """
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, ARTIFACT))
        openvino.save_model(model, path, compress_to_fp16=False)
        return openvino.Core().read_model(path)
