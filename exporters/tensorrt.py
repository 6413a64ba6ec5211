"""TensorRT: a serialised plan, built from the ONNX file for the GPU it is built on."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from exporters import _tensorrt
from exporters.pipeline.job import Job
from exporters.pipeline.parity import Run
from servemark.errors import ArtifactError
from servemark.frameworks.tensorrt import TENSORRT, Plan, reason, require_gpu
from servemark.workload import Workload

if TYPE_CHECKING:
    import tensorrt as trt

ARTIFACT = "model.plan"
PACKAGES = ("tensorrt",)
EXTRA = "tensorrt"
PRECISIONS = _tensorrt.PRECISIONS
REFUSED: Mapping[str, str] = {}
FROM_ONNX = PRECISIONS
READS = ()
DEVICE = _tensorrt.DEVICE
WITHOUT_GPU = False


def write(job: Job) -> Mapping[str, object]:
    """Build model.plan; build.log and the timing cache are kept. Raises ArtifactError where the GPU cannot do it."""
    require_gpu(TENSORRT)
    import torch

    _tensorrt.check_capability(job.precision)
    build = _tensorrt.Build(TENSORRT, job)
    gpu = torch.cuda.get_device_name(0)
    version = build.module.__version__
    timings = job.path.parents[3] / ".tensorrt" / f"{gpu.replace(' ', '_')}-{version}.timing"
    cache = _timings(build.config, timings)
    written = build.write()
    _keep(timings, cache)
    return {"tensorrt": version, "gpu": gpu, **written}


def load(path: Path, workload: Workload) -> Run:
    """Load the plan on the first GPU."""
    inputs, outputs = ([tensor.name for tensor in each] for each in (workload.inputs, workload.outputs))
    return _tensorrt.answering(Plan(TENSORRT, path, DEVICE, inputs, outputs, graphs=False), workload)


def _timings(config: "trt.IBuilderConfig", file: Path) -> "trt.ITimingCache":
    """Attach the timings of earlier builds, an empty cache where there are none or TensorRT refuses them.

    The cache has to live until the network is built.
    """
    for timings in (*([file.read_bytes()] if file.is_file() else []), b""):
        cache = config.create_timing_cache(timings)
        if cache is not None and config.set_timing_cache(cache, False):
            return cache
    raise ArtifactError(f"TensorRT makes no timing cache: {reason()}")


def _keep(file: Path, cache: "trt.ITimingCache") -> None:
    """Write timings for the next build; it may be another process's, at the same time."""
    file.parent.mkdir(exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_bytes(cache.serialize())
    draft.replace(file)
