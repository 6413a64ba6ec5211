"""TensorRT-RTX on one GPU: TensorRT's interface, with kernels that are compiled on the GPU when a plan first runs.

A runtime cache keeps these kernels for the next process. (TensorRT-RTX documentation, "Working with Runtime Cache".)
"""

import hashlib
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from servemark.errors import ServerError
from servemark.frameworks.tensorrt import Edition, Plan, reason, require_gpu
from servemark.output import note

if TYPE_CHECKING:
    import tensorrt as trt

Capability = tuple[int, int]
RTX = Edition("TensorRT-RTX", "tensorrt_rtx_bindings", "pip install -e '.[tensorrt-rtx]'")
CAPABILITIES: tuple[Capability, ...] = ((8, 0), (8, 6), (8, 9), (12, 0), (12, 1))
"""The compute capabilities of the GPUs that one plan serves."""
TURING: Capability = (7, 5)
"""This one has a plan of its own."""
CACHES = ".tensorrt_rtx"
"""The folder of runtime caches, in the model repository."""


def require_capable(device: str = "cuda:0") -> Capability:
    """Check that TensorRT-RTX runs on a GPU; its compute capability. Raises ServerError."""
    require_gpu(RTX)
    import torch

    found = torch.cuda.get_device_capability(device)
    if found not in {TURING, *CAPABILITIES}:
        raise ServerError(
            f"TensorRT-RTX does not run on {torch.cuda.get_device_name(device)}: its compute capability is "
            f"{_words(found)}, TensorRT-RTX has {', '.join(map(_words, (TURING, *CAPABILITIES)))}",
            fix="use --engine tensorrt, onnxruntime or pytorch",
        )
    return found


class RtxPlan(Plan):
    """A plan whose kernels are compiled at first use, and kept for the next process if there is a `cache`."""

    def __init__(
        self, path: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], *, graphs: bool, cache: bool
    ) -> None:
        """Load a plan as `Plan` does. Raises ServerError also on a GPU that TensorRT-RTX does not run on."""
        require_capable(device)
        self._kernels = _file_of_kernels(path, device) if cache else None
        self._settings: trt.IRuntimeConfig | None = None
        self._graphs_follow = graphs
        super().__init__(RTX, path, device, inputs, outputs, graphs=graphs)

    def _new_context(self) -> "trt.IExecutionContext | None":
        if self._settings is None:
            self._settings = self._set_up()
        return self._engine.create_execution_context(self._settings)

    def _set_up(self) -> "trt.IRuntimeConfig":
        settings = self._engine.create_runtime_config()
        settings.set_execution_context_allocation_strategy(self.module.ExecutionContextAllocationStrategy.USER_MANAGED)
        if self._graphs_follow:
            # A graph holds the kernels of its capture, which must not be those that only bridge a compilation.
            strategies = self.module.DynamicShapesKernelSpecializationStrategy
            settings.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER
        cache = settings.create_runtime_cache()
        if self._kernels and self._kernels.is_file():
            cache.deserialize(self._kernels.read_bytes())  # one of another GPU or version is refused, and replaced
        if not settings.set_runtime_cache(cache):
            raise ServerError(f"TensorRT-RTX does not take a runtime cache: {reason()}")
        if self._kernels:
            weakref.finalize(self, _keep, self._kernels, cache)
        return settings

    def _require_capturable(self, context: "trt.IExecutionContext") -> None:
        if not context.is_stream_capturable(self._stream.cuda_stream):
            raise ServerError(
                "the plan cannot be captured as a CUDA graph: TensorRT-RTX says that its stream is not capturable, as "
                "with loops and sizes that depend on data",
                fix="leave out --engine-option cuda_graph",
            )


def _file_of_kernels(path: Path, device: str) -> Path:
    """Name the runtime cache of a plan on a GPU."""
    import torch

    gpu = torch.cuda.get_device_name(device).replace(" ", "_")
    plan = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return path.resolve().parents[2] / CACHES / f"{plan}-{gpu}-{RTX.load().__version__}.kernels"


def _keep(file: Path, cache: "trt.IRuntimeCache") -> None:
    """Write the kernels for the next process; another may do so at the same time. A read-only repository is noted."""
    try:
        file.parent.mkdir(exist_ok=True)
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        draft.write_bytes(cache.serialize())
        draft.replace(file)
    except OSError as error:
        note(f"TensorRT-RTX's kernels cannot be kept, and are compiled again next time: {error}")


def _words(found: Capability) -> str:
    return "{}.{}".format(*found)
