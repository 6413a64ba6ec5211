"""PyTorch: a torch.export program (`model.pt2`), run eagerly or, with option `compile=true`, by torch.compile."""

import importlib
import warnings
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.machine.own_process import words
from servemark.workload import Arrays
from servers.engines import flag, remedy, thread_count

if TYPE_CHECKING:
    import torch

ARTIFACT = "model.pt2"
PACKAGE = "torch"
OPTIONS = ("intra_op_thread_count", "compile", "cuda_graph")
WARM_UP_ROWS = (2, 1, 3)
"""Traced with two, compiled anew for the special case of one; three shows that the batch is not baked in."""


class PyTorch:
    """One exported program on one device, a GPU's on a stream of its own."""

    name = "pytorch"

    def __init__(
        self,
        module: Callable[..., Any],
        device: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        provider: str,
        scalars: Collection[str] = (),
    ) -> None:
        import torch

        self.device = device
        self.provider = provider
        self.scalars = scalars
        self._torch = torch
        self._place = torch.device(device)
        self._stream = torch.cuda.Stream(self._place) if self._place.type == "cuda" else None
        self.module = module
        self.inputs = list(inputs)
        self._outputs = list(outputs)

    def run(self, inputs: Arrays) -> Arrays:
        answer = self.run_tensors({name: self._torch.from_numpy(inputs[name]).to(self._place) for name in self.inputs})
        return {name: tensor.numpy(force=True) for name, tensor in answer.items()}

    def run_tensors(self, inputs: Mapping[str, "torch.Tensor"]) -> "dict[str, torch.Tensor]":
        with self._torch.inference_mode(), self._torch.cuda.stream(self._stream) if self._stream else nullcontext():
            if self._stream:  # what another stream is still writing must be there before this one reads it
                self._stream.wait_stream(self._torch.cuda.default_stream(self._place))
            answer = self.module(*(inputs[name] for name in self.inputs))
            tensors = (answer,) if isinstance(answer, self._torch.Tensor) else tuple(answer)
            if self.provider == CUDA_GRAPHS:  # the next replay overwrites the graph's own
                tensors = tuple(tensor.clone() for tensor in tensors)
        if self._stream:
            self._stream.synchronize()
        return dict(zip(self._outputs, tensors, strict=True))


EAGER, COMPILED, CUDA_GRAPHS = "eager", "torch.compile(inductor)", "torch.compile(inductor) with CUDA graphs"


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> PyTorch:
    """Load a torch.export program and move it to the device.

    Option `compile=true` compiles it and runs it once, so that no request waits for that; `cuda_graph=true` with it
    replays CUDA graphs. Raises ServerError where torch, the device or a compiler is missing or the program cannot be
    compiled, ArtifactError on a damaged file.
    """
    provider = _provider(device, options)
    import torch
    from torch.export.passes import move_to_device_pass

    place = torch.device(device)
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ServerError(
            f"torch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices, {device} was asked for",
            fix="check the driver with: servemark doctor, or use --device cpu",
        )
    if place.type == "cuda":  # TF32 has fp16's mantissa: cuDNN's convolutions take it for float32 unless told not to
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    program = _read(artifact)
    signature = program.graph_signature
    if (len(signature.user_inputs), len(signature.user_outputs)) != (len(inputs), len(outputs)):
        raise ArtifactError(
            f"{artifact} takes {len(signature.user_inputs)} tensors and answers {len(signature.user_outputs)}, "
            f"its configuration names {list(inputs)} and {list(outputs)}",
            fix=remedy(artifact),
        )
    if threads := thread_count(options):
        torch.set_num_threads(threads)  # of the whole process: torch has no setting per model
    # Triton's input buffers may be read-only; the model only reads them.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    program = move_to_device_pass(program, device)
    if provider == EAGER:
        return PyTorch(program.module(), device, inputs, outputs, provider, _scalars(program, inputs))
    return _compile(program, device, inputs, outputs, provider)


def _provider(device: str, options: Mapping[str, str]) -> str:
    if not flag(options, "cuda_graph"):
        return COMPILED if flag(options, "compile") else EAGER
    if device == "cpu" or not flag(options, "compile"):
        raise OptionError("cuda_graph needs compile=true and a GPU", fix="--engine-option compile --device cuda:0")
    return CUDA_GRAPHS


def _read(artifact: Path) -> "torch.export.ExportedProgram":
    import torch

    if not zipfile.is_zipfile(artifact):
        raise ArtifactError(f"{artifact} is truncated or no torch.export program", fix=remedy(artifact))
    try:
        _import_operators(artifact)
        return torch.export.load(artifact)
    except Exception as error:
        # a damaged archive surfaces as anything from BadZipFile to AssertionError
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=remedy(artifact)) from error


def _import_operators(artifact: Path) -> None:
    """Import torchvision for a program that has an operator of it, such as RoIAlign."""
    with zipfile.ZipFile(artifact) as archive:
        graphs = [name for name in archive.namelist() if name.endswith("models/model.json")]
        if any(b"torchvision." in archive.read(name) for name in graphs):
            importlib.import_module("torchvision")


def _compile(
    program: "torch.export.ExportedProgram", device: str, inputs: Sequence[str], outputs: Sequence[str], provider: str
) -> PyTorch:
    """Compile a program for any batch size and length, and run it, which is when torch really compiles."""
    import torch
    from torch._inductor import config, cpp_builder, exc

    config.compile_threads = 1  # else torch starts a pool of processes, one for each core, that outlives the load
    config.triton.cudagraph_or_error = provider == CUDA_GRAPHS  # else it runs without them and says nothing
    if device == "cpu":
        try:
            cpp_builder.get_cpp_compiler()
        except exc.InvalidCxxCompiler as error:
            raise ServerError(
                f"torch.compile needs a C++ compiler for the CPU: {str(error).strip()}",
                fix="apt-get install g++, or leave out --engine-option compile",
            ) from error
    module = torch.compile(
        program.module(), fullgraph=True, mode="reduce-overhead" if provider == CUDA_GRAPHS else None
    )
    engine = PyTorch(module, device, inputs, outputs, provider, _scalars(program, inputs))
    try:
        for rows in WARM_UP_ROWS:
            engine.run_tensors(dict(zip(inputs, _example(program, rows, torch.device(device)), strict=True)))
    except Exception as error:  # the compiler's errors share no base
        raise ServerError(
            f"torch.compile cannot compile the model: {words(error)}",
            fix="leave out --engine-option cuda_graph"
            if provider == CUDA_GRAPHS
            else "leave out --engine-option compile",
        ) from error
    return engine


def _example(program: "torch.export.ExportedProgram", rows: int, place: "torch.device") -> "list[torch.Tensor]":
    """Make a batch from the sample that the program was traced with, its sizes that vary marked as such."""
    import torch

    if program.example_inputs is None:
        raise ArtifactError("the program holds no sample of its inputs", fix="export it with servemark")
    tensors = []
    for node, example in zip(_placeholders(program), program.example_inputs[0], strict=True):
        tensor = example[:1].repeat(rows, *[1] * (example.dim() - 1)).to(place)
        for axis, size in enumerate(node.meta["val"].shape):
            if isinstance(size, torch.SymInt) and tensor.shape[axis] > 1:
                torch._dynamo.mark_dynamic(tensor, axis)
        tensors.append(tensor)
    return tensors


def _placeholders(program: "torch.export.ExportedProgram") -> "list[torch.fx.Node]":
    """List the nodes of the program's inputs, in their order."""
    return [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]


def _scalars(program: "torch.export.ExportedProgram", inputs: Sequence[str]) -> list[str]:
    """List the inputs without a dimension."""
    import torch

    values = [node.meta["val"] for node in _placeholders(program)]
    return [
        name for name, value in zip(inputs, values, strict=True) if isinstance(value, torch.Tensor) and not value.ndim
    ]
