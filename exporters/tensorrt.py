"""TensorRT: a serialised plan, built from the ONNX file for the GPU it is built on.

The network is strongly typed, as TensorRT 11 asks: it computes in what the ONNX file says, so a reduced precision
starts from an ONNX file in that precision. One optimisation profile covers batch 1 to the workload's largest.
TensorRT-RTX's exporter takes all but the timing cache from here.
"""

import itertools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from exporters.pipeline.job import Job, Run
from servemark.errors import ArtifactError
from servemark.frameworks.tensorrt import MESSAGES, TENSORRT, Edition, Plan, logger, reason, require_gpu
from servemark.workload import Arrays, Workload

if TYPE_CHECKING:
    import tensorrt as trt

ARTIFACT = "model.plan"
PACKAGES = ("tensorrt",)
EXTRA = "tensorrt"
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
REFUSED: Mapping[str, str] = {}
FROM_ONNX = PRECISIONS
READS = ()
DEVICE = "cuda:0"
WITHOUT_GPU = False

MIN_CAPABILITY = {"bf16": (8, 0), "fp8": (8, 9)}
"""The compute capability that a precision's instructions come with (CUDA C++ Programming Guide, "Compute
Capabilities"): Ampere's first and Ada's."""
TYPICAL_BATCH = 8
"""Batch size that the plan is tuned for, if the workload allows it."""
WORKSPACE_BYTES = 8 << 30
SIZES_FROM = 200
"""Number of the workload's samples from which varying sizes (frames, words) get their range."""
Network = tuple[Path, Mapping[str, object]]
"""An ONNX file, and what the manifest says of how it was made."""
Range = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def write(job: Job) -> Mapping[str, object]:
    """Build model.plan; build.log and the timing cache are kept. Raises ArtifactError where the GPU cannot do it."""
    require_gpu(TENSORRT)
    import torch

    check_capability(job.precision)
    build = Build(TENSORRT, job)
    gpu = torch.cuda.get_device_name(0)
    version = build.module.__version__
    timings = job.path.parents[3] / ".tensorrt" / f"{gpu.replace(' ', '_')}-{version}.timing"
    cache = _timings(build.config, timings)
    written = build.write()
    timings.parent.mkdir(exist_ok=True)
    draft = timings.with_name(f"{timings.name}.{os.getpid()}")  # another process may write them at the same time
    draft.write_bytes(cache.serialize())
    draft.replace(timings)
    return {"tensorrt": version, "gpu": gpu, **written}


def load(path: Path, workload: Workload) -> Run:
    """Load the plan on the first GPU."""
    inputs, outputs = ([tensor.name for tensor in each] for each in (workload.inputs, workload.outputs))
    return answering(Plan(TENSORRT, path, DEVICE, inputs, outputs, graphs=False), workload)


def _timings(config: "trt.IBuilderConfig", file: Path) -> "trt.ITimingCache":
    """Attach the timings of earlier builds, an empty cache where there are none or TensorRT refuses them.

    The cache has to live until the network is built.
    """
    for timings in (*([file.read_bytes()] if file.is_file() else []), b""):
        cache = config.create_timing_cache(timings)
        if cache is not None and config.set_timing_cache(cache, False):
            return cache
    raise ArtifactError(f"TensorRT makes no timing cache: {reason()}")


def profile(workload: Workload) -> dict[str, Range]:
    """Give each input's smallest, typical and largest shape, the batch first where there is one."""
    rng = np.random.default_rng(crc32(f"profile {workload.name}".encode()))
    variable = any(tensor.variable_axes for tensor in workload.inputs)
    samples = list(itertools.islice(workload.samples(rng), SIZES_FROM if variable else 1))
    batches = (1, min(TYPICAL_BATCH, workload.max_batch), workload.max_batch)
    leading = [(batch,) if workload.batched else () for batch in batches]
    ranges = {}
    for tensor in workload.inputs:
        sizes = np.array([sample[tensor.name].shape for sample in samples], np.int64).reshape(len(samples), -1)
        shapes = (sizes.min(axis=0), np.sort(sizes, axis=0)[len(sizes) // 2], sizes.max(axis=0))
        smallest, typical, largest = ((*first, *map(int, shape)) for first, shape in zip(leading, shapes, strict=True))
        ranges[tensor.name] = (smallest, typical, largest)
    return ranges


class Build:
    """A network that has been read, with its configuration, from which `write` makes a plan."""

    def __init__(self, edition: Edition, job: Job, network: Callable[[Job, Path], Network] | None = None) -> None:
        """Make the ONNX file, by `network` or as `network_file` does, and read it.

        Raises ArtifactError in the parser's words.
        """
        self._edition, self._job = edition, job
        self.module = edition.load()
        MESSAGES.clear()
        self._builder = self.module.Builder(logger(edition))
        typed = self.module.NetworkDefinitionCreationFlag.STRONGLY_TYPED
        self._network = self._builder.create_network(1 << int(typed))
        parser = self.module.OnnxParser(self._network, logger(edition))
        draft = job.path.with_name("source.onnx")
        source, self._converted = (network or network_file)(job, draft)
        read = parser.parse_from_file(str(source))
        draft.unlink(missing_ok=True)
        if not read:
            reasons = "; ".join(str(parser.get_error(index)) for index in range(parser.num_errors))
            raise ArtifactError(f"{self._version} cannot read {job.workload.name}: {reasons}")
        self._ranges = profile(job.workload)
        self.config = self._configured()

    @property
    def _version(self) -> str:
        return f"{self._edition.title} {self.module.__version__}"

    def _configured(self) -> "trt.IBuilderConfig":
        config = self._builder.create_builder_config()
        config.set_memory_pool_limit(self.module.MemoryPoolType.WORKSPACE, WORKSPACE_BYTES)
        config.clear_flag(self.module.BuilderFlag.TF32)  # fp32 means fp32
        config.profiling_verbosity = self.module.ProfilingVerbosity.DETAILED
        shapes = self._builder.create_optimization_profile()
        for name, (smallest, typical, largest) in self._ranges.items():
            shapes.set_shape(name, smallest, typical, largest)
        if config.add_optimization_profile(shapes) < 0:
            raise ArtifactError(f"{self._edition.title} does not take the profile {self._ranges}: {reason()}")
        return config

    def write(self) -> dict[str, object]:
        """Write the plan and build.log; returns the manifest's words on the format. Raises ArtifactError."""
        path, begun = self._job.path, time.perf_counter()
        plan = self._builder.build_serialized_network(self._network, self.config)
        (path.parents[1] / "build.log").write_text("\n".join(MESSAGES) + "\n")
        if plan is None:
            raise ArtifactError(f"{self._version} cannot build {self._job.workload.name}: {reason()}")
        path.write_bytes(plan)
        return {
            "profile": self._ranges,
            "layers": self._network.num_layers,
            "plan_mb": round(path.stat().st_size / 1e6, 1),
            "build_s": round(time.perf_counter() - begun, 1),
            **self._converted,
        }


def network_file(job: Job, target: Path) -> Network:
    """Give the ONNX file in the job's precision, made as `target` where that is reduced, and what was converted."""
    if job.precision in {"fp16", "bf16"}:
        from exporters.onnx_passes.half import to_half

        return target, to_half(job.origin, target, job.precision)
    if job.precision == "int8":
        from exporters.onnx_passes.quantisation import to_int8

        return target, to_int8(job.origin, target, job.calibration(), symmetric=True)
    if job.precision == "fp8":
        from exporters.onnx_passes.float8 import to_fp8

        return target, to_fp8(job.origin, target, job.calibration())
    return job.origin, {}


def answering(plan: Plan, workload: Workload) -> Run:
    """Let a plan answer arrays with arrays."""
    import torch

    names = [tensor.name for tensor in workload.outputs]

    def run(inputs: Arrays) -> Arrays:
        answer = plan.run({name: torch.from_numpy(array) for name, array in inputs.items()})
        return {name: answer[name].cpu().numpy() for name in names}

    return run


def check_capability(precision: str) -> None:
    """Check that the first GPU has instructions for a precision, before anything is converted. Raises ArtifactError."""
    import torch

    found = torch.cuda.get_device_capability(0)
    if found < MIN_CAPABILITY.get(precision, (0, 0)):
        able = [each for each in PRECISIONS if MIN_CAPABILITY.get(each, (0, 0)) <= found]
        least = MIN_CAPABILITY[precision]
        raise ArtifactError(
            f"{torch.cuda.get_device_name(0)} has no {precision}: its compute capability is {found[0]}.{found[1]}, "
            f"{precision} begins with {least[0]}.{least[1]}",
            fix=f"use {', '.join(able)}, or another GPU",
        )
