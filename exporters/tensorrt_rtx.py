"""TensorRT-RTX: a serialised plan, built from the ONNX file on any machine, for the GPUs that have no other.

Its kernels are compiled on the GPU when the plan first runs, so one plan serves all GPUs from Ampere on.
"""

from collections.abc import Mapping
from pathlib import Path

from exporters import tensorrt
from exporters.pipeline.job import Job, Run
from exporters.pipeline.parity import UncheckedError
from servemark.errors import ServerError
from servemark.frameworks.tensorrt_rtx import CAPABILITIES, RTX, TURING, RtxPlan, require_capable
from servemark.workload import Workload

ARTIFACT = tensorrt.ARTIFACT
PACKAGES = ("tensorrt_rtx_bindings",)
EXTRA = "tensorrt-rtx"
PRECISIONS = tensorrt.PRECISIONS
REFUSED = tensorrt.REFUSED
FROM_ONNX = PRECISIONS
READS = ()
DEVICE = tensorrt.DEVICE
WITHOUT_GPU = True


def network_file(job: Job, target: Path) -> tensorrt.Network:
    """Make the ONNX file as for TensorRT, without RoiAlign, whose plugin can be made only where there is a GPU."""
    from exporters.onnx_passes.regions import without_roi_align

    source, converted = tensorrt.network_file(job, target)
    return (target if without_roi_align(source, target) else source), converted


def write(job: Job) -> Mapping[str, object]:
    """Build model.plan for all GPUs that one plan serves, or for a Turing where that is the GPU here; keep build.log.

    Raises ArtifactError.
    """
    import torch

    least = tensorrt.MIN_CAPABILITY.get(job.precision, (0, 0))
    targets = [each for each in CAPABILITIES if each >= least]
    if torch.cuda.is_available() and torch.cuda.get_device_capability(0) == TURING:
        tensorrt.check_capability(job.precision)
        targets = [TURING]
    build = tensorrt.Build(RTX, job, network_file)
    build.config.num_compute_capabilities = len(targets)
    for index, (major, minor) in enumerate(targets):
        build.config.set_compute_capability(getattr(build.module.ComputeCapability, f"SM{major}{minor}"), index)
    return {"tensorrt_rtx": build.module.__version__, "compute_capabilities": targets, **build.write()}


def load(path: Path, workload: Workload) -> Run:
    """Load the plan on the first GPU. Raises UncheckedError where TensorRT-RTX runs on none."""
    try:
        require_capable(DEVICE)
    except ServerError as error:
        raise UncheckedError(error.what) from error
    inputs, outputs = ([tensor.name for tensor in each] for each in (workload.inputs, workload.outputs))
    return tensorrt.answering(RtxPlan(path, DEVICE, inputs, outputs, graphs=False, cache=False), workload)
