"""ONNX: one file with the weights inside, read by ONNX Runtime and every converter behind it.

The reduced precisions are written from the fp32 file.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.onnx_passes.torch_export import hush, without_repeated_work
from exporters.pipeline.job import Job, Run
from servemark.frameworks.onnxruntime import FP16_ON_CPU, Session, import_onnxruntime
from servemark.repository.entry import Entry
from servemark.workload import Workload

if TYPE_CHECKING:
    import torch

ARTIFACT = "model.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
EXTRA = "onnxruntime"
PRECISIONS = ("fp32", "fp16", "int8")
REFUSED = {
    "bf16": "ONNX Runtime's CPU provider has no bf16 kernels",
    "fp8": "ONNX Runtime's CPU provider has no products in fp8",
}
FROM_ONNX = ("fp16", "int8")
READS = ("pytorch",)
DEVICE = "cpu"
WITHOUT_GPU = True

OPSET, IR_VERSION = 18, 10
"""Of the year 2024: ONNX Runtime 1.19 and later, and with it NVIDIA's containers since 24.09, read both."""
_VERSIONS = {"opset": OPSET, "ir_version": IR_VERSION}


def write(job: Job) -> Mapping[str, object]:
    """Write model.onnx through torch.export, or from the fp32 file. Raises ArtifactError where int8 cannot be."""
    import_onnxruntime()  # the quantiser starts sessions of its own
    if job.precision == "fp16":
        from exporters.onnx_passes.half import to_half

        return _VERSIONS | to_half(job.origin, job.path, job.precision)
    if job.precision == "int8":
        from exporters.onnx_passes.quantisation import to_int8

        return _VERSIONS | to_int8(job.origin, job.path, job.calibration())
    _trace(job)
    return _VERSIONS


def _trace(job: Job) -> None:
    import torch

    if job.workload.source:
        # the batch is as open in the program as its maker left it
        with without_repeated_work():
            program = torch.onnx.export(torch.export.load(job.origin), dynamo=True, **_names(job.workload))
        _save(job, program)
        return
    hush()
    workload, example = job.workload, job.example
    # the name is given once: a second time it is the same symbol to torch, which then warns about it
    batch: list[Any] = [torch.export.Dim("batch"), *[torch.export.Dim.DYNAMIC] * (len(workload.inputs) - 1)]
    # Taken apart as its fused form, torch 2.15 loses track of the strides of an attention's answer.
    with (
        warnings.catch_warnings(),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        without_repeated_work(),
    ):
        # torch's own code for a loop in the model calls what torch is going to remove
        warnings.filterwarnings("ignore", message="_check_is_size", category=FutureWarning)
        program = torch.onnx.export(
            job.model,
            tuple(torch.from_numpy(example[tensor.name]) for tensor in workload.inputs),
            dynamo=True,
            dynamic_shapes=tuple(
                {0: dimension} | dict.fromkeys(tensor.variable_axes, torch.export.Dim.DYNAMIC)
                for dimension, tensor in zip(batch, workload.inputs, strict=True)
            ),
            **_names(workload),
        )
    _save(job, program)


def _names(workload: Workload) -> dict[str, Any]:
    return {
        "input_names": [tensor.name for tensor in workload.inputs],
        "output_names": [tensor.name for tensor in workload.outputs],
        "opset_version": OPSET,
        "verbose": False,  # its progress report; warnings still come
    }


def _save(job: Job, program: "torch.onnx.ONNXProgram | None") -> None:
    if program is None:
        raise AssertionError("torch.onnx.export returns None only with dynamo=False")
    program.model.ir_version = IR_VERSION
    # torch names values after operators, so that one of them may have an output's name: "embedding".
    ends = set(program.model.graph.outputs)
    taken = {value.name for value in ends}
    for number, node in enumerate(program.model.graph.all_nodes()):
        for value in node.outputs:
            if value.name in taken and value not in ends:
                value.name = f"{value.name}_within_{number}"
    program.save(job.path, external_data=False)


def load(path: Path, workload: Workload) -> Run:
    """Start a session of the CPU execution provider."""
    onnxruntime = import_onnxruntime()
    settings = onnxruntime.SessionOptions()
    entry = Entry.of_folder(path.parent.parent)
    if entry is not None and entry.precision == "fp16":
        settings.add_session_config_entry(*FP16_ON_CPU)
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return Session(session, [tensor.name for tensor in workload.outputs]).run
