"""A TensorRT plan on one GPU: deserialised, bound by tensor name, run on a CUDA stream.

The name-based API (`set_input_shape`, `set_tensor_address`, `execute_async_v3`) is the same in TensorRT 10 and 11, and
in TensorRT-RTX; an `Edition` says what differs. Device memory, streams and CUDA graphs are PyTorch's. Exporters use it
for the parity check, the engines for serving.
"""

import functools
import importlib
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from servemark.errors import ArtifactError, ServerError

if TYPE_CHECKING:
    import tensorrt as trt
    import torch

TorchTensors = dict[str, "torch.Tensor"]
Shapes = tuple[tuple[int, ...], ...]
ALIGNMENT_BYTES = 256
"""Of every tensor's address (NvInferRuntime.h, `setTensorAddress`). PyTorch's own allocations have it."""
MAX_GRAPHS = 32
"""Each keeps its tensors; dynamic batching makes up to max_batch_size different shapes."""
TORCH_DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
"""TensorRT's names of datatypes -> torch's."""
MESSAGES: deque[str] = deque(maxlen=10_000)
"""TensorRT's messages since the last work began, such as `ERROR: ...`; VERBOSE messages are left out."""


class Module(Protocol):
    """Names that servemark uses of an edition's module (see tests/doubles/stubs/tensorrt.pyi)."""

    __version__: str
    Builder: "type[trt.Builder]"
    BuilderFlag: "type[trt.BuilderFlag]"
    ComputeCapability: "type[trt.ComputeCapability]"
    """Of TensorRT-RTX alone."""
    DynamicShapesKernelSpecializationStrategy: "type[trt.DynamicShapesKernelSpecializationStrategy]"
    """Of TensorRT-RTX alone."""
    ExecutionContextAllocationStrategy: "type[trt.ExecutionContextAllocationStrategy]"
    ILogger: "type[trt.ILogger]"
    IProfiler: "type[trt.IProfiler]"
    MemoryPoolType: "type[trt.MemoryPoolType]"
    NetworkDefinitionCreationFlag: "type[trt.NetworkDefinitionCreationFlag]"
    OnnxParser: "type[trt.OnnxParser]"
    ProfilingVerbosity: "type[trt.ProfilingVerbosity]"
    Runtime: "type[trt.Runtime]"

    def init_libnvinfer_plugins(self, logger: "trt.ILogger", namespace: str) -> bool:
        """Register the plugins of this process, such as that of RoiAlign."""


class Edition(NamedTuple):
    """A product of NVIDIA's with TensorRT's interface."""

    title: str
    module: str
    """Name of its Python module."""
    install: str

    def load(self) -> Module:
        """Import its module. Raises ServerError."""
        try:
            found: Module = importlib.import_module(self.module)
        except ImportError as error:
            raise ServerError(f"{self.title} cannot be used: {error}", fix=self.install) from error
        return found


TENSORRT = Edition("TensorRT", "tensorrt", "pip install -e '.[tensorrt]' on a machine with an NVIDIA driver")


def require_gpu(edition: Edition) -> None:
    """Check that an edition of TensorRT and a GPU are there. Raises ServerError."""
    edition.load()
    try:
        import torch
    except ImportError as error:
        raise ServerError(f"device memory is PyTorch's: {error}", fix="pip install -e '.[torch]'") from error
    if not torch.cuda.is_available():
        raise ServerError(
            f"{edition.title} needs an NVIDIA GPU, torch sees none",
            fix="use another engine here, or a machine on which servemark doctor shows a GPU",
        )


@functools.cache
def logger(edition: Edition) -> "trt.ILogger":
    """Make the logger, which writes to MESSAGES: TensorRT keeps the first one of a process for all that follow.

    The plugins are registered with it: a parser or a plan that asks for one does not do that by itself.
    """
    module = edition.load()

    class Messages(module.ILogger):  # type: ignore[misc,name-defined]  # a class of the edition's module
        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: "trt.ILogger.Severity", msg: str) -> None:
            if severity.name != "VERBOSE":
                MESSAGES.append(f"{severity.name}: {msg}")

    made: trt.ILogger = Messages()
    if not module.init_libnvinfer_plugins(made, ""):
        raise ServerError(f"{edition.title} cannot register its plugins: {reason()}", fix=edition.install)
    return made


def reason() -> str:
    """Return the first error since MESSAGES was cleared, else the last message.

    What follows a cause, such as a CUDA error while its remains are tidied up, would hide it.
    """
    errors = [message for message in MESSAGES if message.startswith(("ERROR", "INTERNAL_ERROR"))]
    return (errors or [*MESSAGES][-1:] or ["TensorRT gave no reason"])[0]


class Graph(NamedTuple):
    """A CUDA graph and what has to stay where it is as long as it may be replayed."""

    graph: "torch.cuda.CUDAGraph"
    context: "trt.IExecutionContext"
    inputs: TorchTensors
    outputs: TorchTensors


class Plan:
    """One plan with a stream of its own. Calls of `run` must not overlap."""

    def __init__(
        self, edition: Edition, path: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], *, graphs: bool
    ) -> None:
        """Load a plan on a device such as `cuda:0`.

        With `graphs` each combination of input shapes is captured as a CUDA graph when it first comes (at most
        `MAX_GRAPHS`; the rest runs without). Raises ServerError without a GPU, ArtifactError where the plan was built
        by another TensorRT or for another GPU, or has other tensors.
        """
        require_gpu(edition)
        import torch

        self._torch, self._device = torch, torch.device(device)
        torch.cuda.set_device(self._device)  # a plan and its contexts belong to the GPU that is current
        MESSAGES.clear()
        self._edition, self.module = edition, edition.load()
        self._runtime = self.module.Runtime(logger(edition))
        engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            raise ArtifactError(
                f"{path} cannot be loaded: {reason()}",
                fix=f"export it on this GPU with this {edition.title}, with --force",
            )
        names = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
        if names != {*inputs, *outputs}:
            raise ArtifactError(f"{path} has the tensors {sorted(names)}, {[*inputs, *outputs]} are expected")
        dtypes = {name: getattr(torch, TORCH_DTYPES[engine.get_tensor_dtype(name).name]) for name in names}
        self._inputs: dict[str, torch.dtype] = {name: dtypes[name] for name in inputs}
        self._outputs: dict[str, torch.dtype] = {name: dtypes[name] for name in outputs}
        self.scalars = {name for name in inputs if len(engine.get_tensor_shape(name)) == 0}
        """The inputs without a dimension."""
        self._engine, self._stream = engine, torch.cuda.Stream(self._device)
        # Of intermediate results, for all contexts: they run one after the other.
        self._memory = torch.empty(engine.device_memory_size_v2, dtype=torch.uint8, device=self._device)
        self._context = self._with_memory()
        self._graphs: dict[Shapes, Graph] | None = {} if graphs else None

    def run(self, inputs: "Mapping[str, torch.Tensor]") -> TorchTensors:
        """Answer one batch; tensors may lie on the host or the device, answers lie on the device and are complete."""
        shapes: Shapes = tuple(tuple(inputs[name].shape) for name in self._inputs)
        MESSAGES.clear()
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            # What the caller's stream is still writing must be there before this one reads it.
            self._stream.wait_stream(self._torch.cuda.default_stream(self._device))
            placed = {name: self._place(name, inputs[name]) for name in self._inputs}
            if self._graphs is None or (shapes not in self._graphs and len(self._graphs) >= MAX_GRAPHS):
                answer = self._bind(self._context, placed)
                self._enqueue(self._context)
            else:
                if shapes not in self._graphs:
                    self._graphs[shapes] = self._capture(placed)
                answer = _replay(self._graphs[shapes], placed)
        self._stream.synchronize()
        return answer

    def report(self, profiler: "trt.IProfiler") -> None:
        """Have each run report its layers' times, for which it waits. Not with CUDA graphs."""
        self._context.profiler = profiler

    def _with_memory(self) -> "trt.IExecutionContext":
        context = self._new_context()
        if context is None:
            raise ServerError(f"{self._edition.title} cannot make an execution context: {reason()}")
        context.set_device_memory(self._memory.data_ptr(), self._memory.numel())
        return context

    def _new_context(self) -> "trt.IExecutionContext | None":
        return self._engine.create_execution_context(self.module.ExecutionContextAllocationStrategy.USER_MANAGED)

    def _require_capturable(self, context: "trt.IExecutionContext") -> None:
        """Check that a context that has run can be captured, where its edition says so. Raises ServerError."""

    def _place(self, name: str, tensor: "torch.Tensor") -> "torch.Tensor":
        """Copy an input to the device, or to an address that TensorRT takes, where it is not at one already."""
        if tensor.dtype != self._inputs[name]:  # TensorRT sees an address only
            raise ServerError(f"{name} is {tensor.dtype}, the plan takes {self._inputs[name]}")
        placed = tensor.to(self._device, non_blocking=True).contiguous()
        return placed.clone() if placed.data_ptr() % ALIGNMENT_BYTES else placed

    def _bind(self, context: "trt.IExecutionContext", inputs: TorchTensors) -> TorchTensors:
        """Tell a context where its inputs lie and of which shapes they are; make its outputs."""
        for name, tensor in inputs.items():
            if not context.set_input_shape(name, tuple(tensor.shape)):
                raise ServerError(f"{name} {list(tensor.shape)} lies outside the plan's profile: {reason()}")
        try:
            missing = context.infer_shapes()
        except RuntimeError as error:  # all but a missing shape
            raise ServerError(f"{self._edition.title} cannot tell the plan's shapes: {reason()}") from error
        if missing:
            raise ServerError(f"the plan does not know the shape of {', '.join(missing)}")
        shapes = {name: tuple(context.get_tensor_shape(name)) for name in self._outputs}
        unknown = [name for name, shape in shapes.items() if min(shape, default=0) < 0]
        if unknown:
            raise ServerError(
                f"the shape of {', '.join(unknown)} depends on data, which servemark's engine cannot take"
            )
        outputs = {
            name: self._torch.empty(shapes[name], dtype=dtype, device=self._device)
            for name, dtype in self._outputs.items()
        }
        for name, tensor in {**inputs, **outputs}.items():
            if not context.set_tensor_address(name, tensor.data_ptr()):
                raise ServerError(f"{self._edition.title} does not take {name} at {tensor.data_ptr():#x}: {reason()}")
        return outputs

    def _enqueue(self, context: "trt.IExecutionContext") -> None:
        if not context.execute_async_v3(self._stream.cuda_stream):
            raise ServerError(f"{self._edition.title} could not run: {reason()}")

    def _capture(self, inputs: TorchTensors) -> Graph:
        """Capture a graph of these shapes, in a context of its own: another shape would change what a graph refers to.

        Source: TensorRT documentation, "CUDA Graphs".
        """
        context = self._with_memory()
        inputs = {name: tensor.clone() for name, tensor in inputs.items()}  # those given may be the caller's own
        outputs = self._bind(context, inputs)
        self._enqueue(context)  # what a new shape defers to the first run must not be in the graph
        self._stream.synchronize()
        self._require_capturable(context)
        graph = self._torch.cuda.CUDAGraph()
        try:
            # Other instances' threads may go on allocating.
            with self._torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._enqueue(context)
        except (ServerError, RuntimeError) as error:
            raise ServerError(
                f"the plan cannot be captured as a CUDA graph: {reason()}; {error}",
                fix="leave out --engine-option cuda_graph",
            ) from error
        return Graph(graph, context, inputs, outputs)


def _replay(captured: Graph, inputs: TorchTensors) -> TorchTensors:
    """Replay a graph on new inputs; its answers are copied, since the next replay overwrites them."""
    for name, tensor in inputs.items():
        captured.inputs[name].copy_(tensor, non_blocking=True)
    captured.graph.replay()
    return {name: tensor.clone() for name, tensor in captured.outputs.items()}
