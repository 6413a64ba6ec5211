"""An ONNX Runtime session on a GPU, on PyTorch's device memory and stream.

ONNX Runtime documents: "I/O Binding", and "CUDA Execution Provider" on `user_compute_stream` and `enable_cuda_graph`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import onnxruntime
    import torch

TorchTensors = dict[str, "torch.Tensor"]
Shapes = tuple[tuple[int, ...], ...]
MAX_GRAPHS = 32
"""Each keeps its tensors; dynamic batching makes up to max_batch_size different shapes."""
NO_GRAPH = -1
"""ONNX Runtime runs without capture or replay (onnxruntime_run_options_config_keys.h, `gpu_graph_id`)."""


class Graph(NamedTuple):
    """The number of a CUDA graph and the tensors it reads and writes, which stay where they are."""

    number: int
    inputs: TorchTensors
    outputs: TorchTensors


class DeviceSession:
    """A session bound to device memory. Calls of `run` must not overlap."""

    def __init__(
        self,
        session: "onnxruntime.InferenceSession",
        device: str,
        outputs: Sequence[str],
        stream: "torch.cuda.Stream",
        *,
        graphs: bool,
    ) -> None:
        import torch

        self._session, self._outputs, self._stream, self._torch = session, list(outputs), stream, torch
        self.place = torch.device(device)
        self._graphs: dict[Shapes, Graph] | None = {} if graphs else None

    @property
    def keeps_graphs(self) -> bool:
        """Return True if it replays a CUDA graph for each combination of input shapes."""
        return self._graphs is not None

    def run(self, inputs: Mapping[str, "torch.Tensor"]) -> TorchTensors:
        """Answer one batch; the tensors lie on the device and are complete when it returns."""
        with self._torch.cuda.device(self.place), self._torch.cuda.stream(self._stream):
            # what another stream is still writing must be there before this one reads it
            self._stream.wait_stream(self._torch.cuda.default_stream(self.place))
            placed = {name: tensor.contiguous() for name, tensor in inputs.items()}
            shapes: Shapes = tuple(tuple(tensor.shape) for tensor in placed.values())
            if self._graphs is not None and (shapes in self._graphs or len(self._graphs) < MAX_GRAPHS):
                answer = self._replay(self._graphs, shapes, placed)
            else:
                answer = self._bound(placed)
        self._stream.synchronize()
        return answer

    def _bound(self, inputs: TorchTensors, outputs: TorchTensors | None = None, graph: int = NO_GRAPH) -> TorchTensors:
        """Run on these tensors; ONNX Runtime makes the outputs where none are given."""
        import onnxruntime

        binding = self._session.io_binding()
        for name, tensor in inputs.items():
            binding.bind_input(name, *self._memory(tensor))
        for name in self._outputs:
            if outputs is None:
                binding.bind_output(name, self.place.type, self.place.index or 0)
            else:
                binding.bind_output(name, *self._memory(outputs[name]))
        options = onnxruntime.RunOptions()
        if self._graphs is not None:
            options.add_run_config_entry("gpu_graph_id", str(graph))
        self._session.run_with_iobinding(binding, options)
        if outputs is not None:
            return outputs
        made = zip(self._outputs, binding.get_outputs(), strict=True)
        # DLPack of this version has no booleans: they come as bytes
        return {
            name: tensor.bool() if value.data_type() == "tensor(bool)" else tensor
            for name, value in made
            for tensor in [self._torch.utils.dlpack.from_dlpack(value)]
        }

    def _memory(self, tensor: "torch.Tensor") -> tuple[Any, ...]:
        """Say where a tensor lies, as ONNX Runtime's binding asks for it."""
        kind = self._torch.empty(0, dtype=tensor.dtype).numpy().dtype.type
        return self.place.type, self.place.index or 0, kind, tuple(tensor.shape), tensor.data_ptr()

    def _replay(self, graphs: dict[Shapes, Graph], shapes: Shapes, placed: TorchTensors) -> TorchTensors:
        """Replay the graph of these shapes, whose tensors stay where they are; ONNX Runtime captures it at first."""
        if shapes not in graphs:
            outputs = {name: self._torch.empty_like(tensor) for name, tensor in self._bound(placed).items()}
            inputs = {name: tensor.clone() for name, tensor in placed.items()}
            graphs[shapes] = Graph(len(graphs) + 1, inputs, outputs)  # 0 is ONNX Runtime's own
        graph = graphs[shapes]
        for name, tensor in placed.items():
            graph.inputs[name].copy_(tensor, non_blocking=True)
        self._bound(graph.inputs, graph.outputs, graph.number)
        return {name: tensor.clone() for name, tensor in graph.outputs.items()}
