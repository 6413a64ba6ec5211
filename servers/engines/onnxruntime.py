"""ONNX Runtime on its CPU, CUDA and TensorRT execution providers; on a GPU in PyTorch's device memory and stream.

ONNX Runtime documents: "I/O Binding", and "CUDA Execution Provider" on `user_compute_stream` and `enable_cuda_graph`.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.frameworks.onnxruntime import FP16_ON_CPU, Session, operators
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines import check_names, flag, remedy, thread_count

if TYPE_CHECKING:
    import onnxruntime
    import torch

TorchTensors = dict[str, "torch.Tensor"]
Shapes = tuple[tuple[int, ...], ...]
MAX_GRAPHS = 32
"""Each keeps its tensors; dynamic batching makes up to max_batch_size different shapes."""
NO_GRAPH = -1
"""ONNX Runtime runs without capture or replay (onnxruntime_run_options_config_keys.h, `gpu_graph_id`)."""
ARTIFACT = "model.onnx"
PACKAGE = "onnxruntime"
PROFILE, KEEP_WEIGHTS = "profile_file_prefix", "session.disable_prepacking"
"""ONNX Runtime's names: of a profile's file, and of weights that stay as they are, whose shapes a profile then has."""
STOP_SPINNING = "session.force_spinning_stop"
"""After an inference a session's threads take the cores for 30 ms and more, to wait for the next. This ends that."""
CONVOLUTIONS = "cudnn_conv_algo_search"
"""ONNX Runtime's name for how the CUDA provider chooses a convolution's kernel: anew for each change of shape."""
SEARCHES = ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")
CONVOLVING = {"Conv", "ConvTranspose"}
NOT_CAPTURED = {"Compress", "If", "Loop", "NonMaxSuppression", "NonZero", "Range", "Scan", "Unique"}
"""Operators whose work depends on data that the host has to see, which no CUDA graph holds."""
OPTIONS = (
    "intra_op_thread_count",
    "execution_accelerator",
    "cuda_graph",
    CONVOLUTIONS,
    PROFILE,
    KEEP_WEIGHTS,
    STOP_SPINNING,
)
_RECORD_PLACES = ("session.record_ep_graph_assignment_info", "1")

LIBRARIES = {
    "CUDAExecutionProvider": "check the driver with servemark doctor; "
    "pip install 'onnxruntime-gpu[cuda,cudnn]' brings the CUDA libraries",
    "TensorrtExecutionProvider": "it needs TensorRT 10: put the folder of libnvinfer.so.10 into LD_LIBRARY_PATH",
}


class Graph(NamedTuple):
    """The number of a CUDA graph and the tensors it reads and writes, which stay where they are."""

    number: int
    inputs: TorchTensors
    outputs: TorchTensors


class OnnxRuntime:
    """One inference session."""

    name = "onnxruntime"
    keeps_graphs = False
    """It replays a CUDA graph for each combination of input shapes."""

    def __init__(self, session: "onnxruntime.InferenceSession", device: str, outputs: Sequence[str]) -> None:
        self.device = device
        self.session = session
        self.scalars = {node.name for node in session.get_inputs() if node.shape == []}
        self._answer = Session(session, outputs).run

    @property
    def provider(self) -> str:
        """The execution provider of the highest priority in the session."""
        return str(self.session.get_providers()[0])

    def run(self, inputs: Arrays) -> Arrays:
        return self._answer(inputs)


class OnnxRuntimeOnGpu(OnnxRuntime):
    """One inference session on a GPU, bound to device memory and a stream of PyTorch's. Calls must not overlap.

    With `graphs` it replays a CUDA graph for each combination of input shapes.
    """

    def __init__(
        self,
        session: "onnxruntime.InferenceSession",
        device: str,
        outputs: Sequence[str],
        stream: "torch.cuda.Stream",
        *,
        graphs: bool,
        search: str = "",
    ) -> None:
        import torch

        super().__init__(session, device, outputs)
        self._outputs, self._stream, self._torch = list(outputs), stream, torch
        self._place = torch.device(device)
        self._graphs: dict[Shapes, Graph] = {}
        self.keeps_graphs = graphs
        self._how = " with CUDA graphs" if graphs else f" with {CONVOLUTIONS}={search}" if search else ""
        self._on_host = _on_host(session)

    @property
    def provider(self) -> str:
        """The provider of the highest priority in the session, how it runs, and how many operators the CPU has."""
        return super().provider + self._how + self._on_host

    def run(self, inputs: Arrays) -> Arrays:
        tensors = {name: self._torch.from_numpy(array).to(self._place) for name, array in inputs.items()}
        return {name: tensor.numpy(force=True) for name, tensor in self.run_tensors(tensors).items()}

    def run_tensors(self, inputs: "Mapping[str, torch.Tensor]") -> TorchTensors:
        with self._torch.cuda.device(self._place), self._torch.cuda.stream(self._stream):
            # what another stream is still writing must be there before this one reads it
            self._stream.wait_stream(self._torch.cuda.default_stream(self._place))
            placed = {name: tensor.contiguous() for name, tensor in inputs.items()}
            shapes: Shapes = tuple(tuple(tensor.shape) for tensor in placed.values())
            if self.keeps_graphs and (shapes in self._graphs or len(self._graphs) < MAX_GRAPHS):
                answer = self._replay(shapes, placed)
            else:
                answer = self._bound(placed)
        self._stream.synchronize()
        return answer

    def _bound(self, inputs: TorchTensors, outputs: TorchTensors | None = None, graph: int = NO_GRAPH) -> TorchTensors:
        """Run on these tensors; ONNX Runtime makes the outputs where none are given."""
        import onnxruntime

        binding = self.session.io_binding()
        for name, tensor in inputs.items():
            binding.bind_input(name, *self._memory(tensor))
        for name in self._outputs:
            if outputs is None:
                binding.bind_output(name, self._place.type, self._place.index or 0)
            else:
                binding.bind_output(name, *self._memory(outputs[name]))
        options = onnxruntime.RunOptions()
        if self.keeps_graphs:
            options.add_run_config_entry("gpu_graph_id", str(graph))
        self.session.run_with_iobinding(binding, options)
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
        return self._place.type, self._place.index or 0, kind, tuple(tensor.shape), tensor.data_ptr()

    def _replay(self, shapes: Shapes, placed: TorchTensors) -> TorchTensors:
        """Replay the graph of these shapes, whose tensors stay where they are; ONNX Runtime captures it at first."""
        if shapes not in self._graphs:
            outputs = {name: self._torch.empty_like(tensor) for name, tensor in self._bound(placed).items()}
            inputs = {name: tensor.clone() for name, tensor in placed.items()}
            self._graphs[shapes] = Graph(len(self._graphs) + 1, inputs, outputs)  # 0 is ONNX Runtime's own
        graph = self._graphs[shapes]
        for name, tensor in placed.items():
            graph.inputs[name].copy_(tensor, non_blocking=True)
        self._bound(graph.inputs, graph.outputs, graph.number)
        return {name: tensor.clone() for name, tensor in graph.outputs.items()}


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> OnnxRuntime:
    """Load an ONNX file; option `execution_accelerator=tensorrt` asks for the TensorRT provider on a GPU.

    Option `cuda_graph=true` replays a CUDA graph for each combination of input shapes. So does a model with
    convolutions that is asked for neither this nor a search (see `_for_changing_batches`). Raises ServerError where
    the package or the provider is missing: a session that falls back to the CPU is refused.
    """
    ways = _for_changing_batches(artifact, device, options)
    for way in ways[:-1]:
        with contextlib.suppress(NoGraphsError):
            return _load(artifact, device, inputs, outputs, way)
    return _load(artifact, device, inputs, outputs, ways[-1])


def _for_changing_batches(artifact: Path, device: str, options: Mapping[str, str]) -> list[Mapping[str, str]]:
    """List the options to try, the best first, for a GPU on which batches change.

    The CUDA provider chooses a convolution's kernel anew each time the batch size changes, by default by trying all:
    0.6 s for ResNet-50 on an H100. A CUDA graph chooses once for each size; else it chooses without a try.
    """
    if device == "cpu" or options.keys() & {"cuda_graph", "execution_accelerator", CONVOLUTIONS}:
        return [options]
    try:
        found = operators(artifact)
    except DecodeError:
        return [options]  # ONNX Runtime says what is wrong with it
    if not found & CONVOLVING:
        return [options]
    graphs = [] if found & NOT_CAPTURED else [{**options, "cuda_graph": "true"}]
    return [*graphs, {**options, CONVOLUTIONS: "HEURISTIC"}]


class NoGraphsError(ServerError):
    """ONNX Runtime refuses CUDA graphs for a model."""


def _load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> OnnxRuntime:
    import onnxruntime

    providers = _providers(device, options)
    graphs = flag(options, "cuda_graph")
    if graphs and device == "cpu":
        raise OptionError("cuda_graph needs a GPU", fix="use --device cuda:0, or leave out --engine-option cuda_graph")
    wanted = providers[0][0]
    if wanted not in onnxruntime.get_available_providers():
        raise ServerError(
            f"this onnxruntime has no {wanted} for {device}; it has {onnxruntime.get_available_providers()}",
            fix="pip install onnxruntime-gpu, or use --device cpu",
        )
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = thread_count(options)
    settings.log_severity_level = 3  # errors only: warnings about graph rewriting are of no use to who serves
    entry = Entry.of_folder(artifact.resolve().parent.parent)
    if device == "cpu" and entry is not None and entry.precision == "fp16":
        settings.add_session_config_entry(*FP16_ON_CPU)
    if PROFILE in options:
        settings.enable_profiling, settings.profile_file_prefix = True, options[PROFILE]
    for key in options.keys() & {KEEP_WEIGHTS, STOP_SPINNING}:
        settings.add_session_config_entry(key, options[key])
    stream = None
    if device != "cpu":
        settings.add_session_config_entry(*_RECORD_PLACES)
        stream = _stream(providers, device, graphs=graphs)
    try:
        session = onnxruntime.InferenceSession(str(artifact), settings, providers=providers, enable_fallback=0)
    except Exception as error:
        # onnxruntime raises classes of its C extension that share no base but Exception
        if graphs:
            raise NoGraphsError(
                f"{artifact} cannot be loaded for CUDA graphs: {error}", fix="leave out --engine-option cuda_graph"
            ) from error
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=remedy(artifact)) from error
    if session.get_providers()[0] != wanted:
        raise ServerError(
            f"{wanted} could not be started on {device}; onnxruntime offered {session.get_providers()[0]} instead",
            fix=LIBRARIES[wanted],
        )
    check_names(artifact, "inputs", inputs, [node.name for node in session.get_inputs()])
    check_names(artifact, "outputs", outputs, [node.name for node in session.get_outputs()])
    if stream is None:
        return OnnxRuntime(session, device, outputs)
    return OnnxRuntimeOnGpu(session, device, outputs, stream, graphs=graphs, search=options.get(CONVOLUTIONS, ""))


def _stream(providers: list[tuple[str, dict[str, str]]], device: str, *, graphs: bool) -> "torch.cuda.Stream":
    """Let the providers use a stream of the instance's own. Raises ServerError without PyTorch, whose memory it is."""
    import onnxruntime

    try:
        import torch
    except ImportError as error:
        raise ServerError(f"device memory is PyTorch's: {error}", fix="pip install -e '.[torch]'") from error
    # The CUDA provider finds the CUDA libraries of pip's packages only so, because PyTorch loads not all of them.
    with contextlib.redirect_stdout(sys.stderr):  # it says what is missing
        onnxruntime.preload_dlls()
    stream = torch.cuda.Stream(torch.device(device))
    for _, settings in providers:
        settings["user_compute_stream"] = str(stream.cuda_stream)
    if graphs:  # of the first alone: two providers would begin a capture on one stream
        name, settings = providers[0]
        settings["trt_cuda_graph_enable" if name.startswith("Tensorrt") else "enable_cuda_graph"] = "1"
    return stream


def _on_host(session: "onnxruntime.InferenceSession") -> str:
    """Say how many operators have no kernel on the GPU, or are left to the CPU since they compute shapes."""
    places = Counter[str]()
    for part in session.get_provider_graph_assignment_info():
        places[part.ep_name] += len(part.get_nodes())
    here = places["CPUExecutionProvider"]
    return f" ({here} of {places.total()} operators on the CPU)" if here else ""


def _providers(device: str, options: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """List the providers to ask for; onnxruntime itself adds the CPU for operators that have no GPU kernel."""
    accelerator, search = options.get("execution_accelerator"), options.get(CONVOLUTIONS)
    if accelerator not in {None, "tensorrt"} or (accelerator and device == "cpu"):
        raise ServerError(
            f"execution_accelerator {accelerator!r} is not supported on {device}", fix="use tensorrt on cuda:N"
        )
    if search is not None and (search not in SEARCHES or device == "cpu"):
        raise OptionError(
            f"{CONVOLUTIONS} {search!r} is not supported on {device}", fix=f"use {', '.join(SEARCHES)} on cuda:N"
        )
    if device == "cpu":
        return [("CPUExecutionProvider", {})]
    place = {"device_id": device.removeprefix("cuda:")}
    exact = {**place, "use_tf32": "0"}  # TF32 has fp16's mantissa; it is the default
    if search is not None:
        exact[CONVOLUTIONS] = search
    cuda = ("CUDAExecutionProvider", exact)
    return [("TensorrtExecutionProvider", place), cuda] if accelerator else [cuda]
