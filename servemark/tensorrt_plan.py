"""A TensorRT plan on one GPU: deserialised, bound by tensor name, run on a CUDA stream. It has not run on a GPU yet.

The name-based API (`set_input_shape`, `set_tensor_address`, `execute_async_v3`) is the same in TensorRT 10 and 11.
Device memory, streams and CUDA graphs are PyTorch's. Exporters use it for the parity check, the engine for serving.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servemark.errors import ArtifactError, ServerError

if TYPE_CHECKING:
    import tensorrt as trt
    import torch

Tensors = dict[str, "torch.Tensor"]
Shapes = tuple[tuple[int, ...], ...]
INSTALL = "pip install -e '.[tensorrt]' on a machine with an NVIDIA driver"


def require() -> None:
    """Check that TensorRT and a GPU are there. Raises ServerError."""
    try:
        import tensorrt  # noqa: F401
        import torch
    except ImportError as error:
        raise ServerError(f"TensorRT cannot be used: {error}", fix=INSTALL) from error
    if not torch.cuda.is_available():
        raise ServerError("TensorRT needs an NVIDIA GPU, torch sees none", fix="servemark doctor shows what it finds")


def logger(lines: list[str]) -> "trt.ILogger":
    """Make a TensorRT logger that appends warnings and errors, and what the builder says of itself, to `lines`."""
    import tensorrt as trt

    class Lines(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: "trt.ILogger.Severity", msg: str) -> None:
            if severity != trt.ILogger.Severity.VERBOSE:
                lines.append(f"{severity.name}: {msg}")

    return Lines()


class Plan:
    """One execution context with a stream of its own. Calls of `run` must not overlap."""

    def __init__(self, path: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], *, graphs: bool) -> None:
        """Load a plan on a device such as `cuda:0`.

        With `graphs` each combination of input shapes is captured as a CUDA graph when it first comes (at most
        `MOST_GRAPHS`; the rest runs without). Raises ServerError without a GPU, ArtifactError where the plan was built
        by another TensorRT or for another GPU, or has other tensors.
        """
        require()
        import tensorrt as trt
        import torch

        self._device = torch.device(device)
        self._lines: list[str] = []
        torch.cuda.set_device(self._device)
        self._runtime = trt.Runtime(logger(self._lines))
        engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            raise ArtifactError(
                f"{path} cannot be loaded: {self.said()}", fix="export it on this GPU with this TensorRT, with --force"
            )
        names = {engine.get_tensor_name(index) for index in range(engine.num_io_tensors)}
        if names != {*inputs, *outputs}:
            raise ArtifactError(f"{path} has the tensors {sorted(names)}, {[*inputs, *outputs]} are expected")
        self._inputs = list(inputs)
        self._dtypes = {name: getattr(torch, TORCH_DTYPES[engine.get_tensor_dtype(name).name]) for name in outputs}
        self._engine, self._context = engine, engine.create_execution_context()
        self._torch, self._stream = torch, torch.cuda.Stream(self._device)
        self._graphs: dict[Shapes, tuple[Any, Tensors, Tensors]] | None = {} if graphs else None

    def said(self) -> str:
        """Return TensorRT's last message."""
        return self._lines[-1] if self._lines else "TensorRT gave no reason"

    def run(self, inputs: Mapping[str, "torch.Tensor"]) -> Tensors:
        """Answer one batch; tensors may lie on the host or the device, answers lie on the device and are complete."""
        shapes: Shapes = tuple(tuple(inputs[name].shape) for name in self._inputs)
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            # What the caller's stream is still writing must be there before this one reads it.
            self._stream.wait_stream(self._torch.cuda.default_stream(self._device))
            placed = {name: inputs[name].to(self._device, non_blocking=True).contiguous() for name in self._inputs}
            if self._graphs is not None and (shapes in self._graphs or len(self._graphs) < MOST_GRAPHS):
                answer = self._replay(shapes, placed)
            else:
                answer = self._enqueue(placed, self._allocate(placed))
        self._stream.synchronize()
        return answer

    def _allocate(self, inputs: Tensors) -> Tensors:
        """Tell the context the inputs' shapes, and make room for the outputs'."""
        for name, tensor in inputs.items():
            if not self._context.set_input_shape(name, tuple(tensor.shape)):
                raise ServerError(f"{name} {list(tensor.shape)} lies outside the plan's profile: {self.said()}")
        missing = self._context.infer_shapes()
        if missing:
            raise ServerError(f"the plan does not know the shape of {', '.join(missing)}")
        return {
            name: self._torch.empty(
                tuple(map(int, self._context.get_tensor_shape(name))), dtype=dtype, device=self._device
            )
            for name, dtype in self._dtypes.items()
        }

    def _enqueue(self, inputs: Tensors, outputs: Tensors) -> Tensors:
        for name, tensor in {**inputs, **outputs}.items():
            self._context.set_tensor_address(name, tensor.data_ptr())
        if not self._context.execute_async_v3(self._torch.cuda.current_stream().cuda_stream):
            raise ServerError(f"TensorRT could not run: {self.said()}")
        return outputs

    def _replay(self, shapes: Shapes, placed: Tensors) -> Tensors:
        """Replay the graph of these shapes, capturing it first: its tensors stay where they are."""
        assert self._graphs is not None
        if shapes not in self._graphs:
            outputs = self._allocate(placed)
            self._enqueue(placed, outputs)  # TensorRT allocates on the first run, which a capture forbids
            self._stream.synchronize()
            graph = self._torch.cuda.CUDAGraph()
            with self._torch.cuda.graph(graph, stream=self._stream):
                self._enqueue(placed, outputs)
            self._graphs[shapes] = (graph, placed, outputs)
        graph, inputs, outputs = self._graphs[shapes]
        for name, tensor in placed.items():
            inputs[name].copy_(tensor, non_blocking=True)
        graph.replay()
        return {name: tensor.clone() for name, tensor in outputs.items()}


MOST_GRAPHS = 32
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
