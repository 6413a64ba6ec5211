"""PyTorch: a torch.export program (`model.pt2`), run eagerly or, with option `compile=true`, by torch.compile."""

import importlib
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.errors import ArtifactError, OptionError, ServerError
from servers.engines import Arrays, check_options, export_command, thread_count

if TYPE_CHECKING:
    import torch

ARTIFACT = "model.pt2"
OPTIONS = ("intra_op_thread_count", "compile")


class PyTorch:
    """One exported program on one device."""

    name = "pytorch"

    def __init__(
        self, module: Callable[..., Any], device: str, inputs: Sequence[str], outputs: Sequence[str], *, compiled: bool
    ) -> None:
        import torch

        self.device = device
        self.provider = "torch.compile" if compiled else "eager"
        self._torch = torch
        self._place = torch.device(device)
        self._module = module
        self._inputs = list(inputs)
        self._outputs = list(outputs)

    def run(self, inputs: Arrays) -> Arrays:
        """Answer one batch."""
        with self._torch.inference_mode():
            answer = self._module(*(self._tensor(inputs[name]) for name in self._inputs))
            tensors = (answer,) if isinstance(answer, self._torch.Tensor) else tuple(answer)
            return {name: tensor.numpy(force=True) for name, tensor in zip(self._outputs, tensors, strict=True)}

    def _tensor(self, array: npt.NDArray[np.generic]) -> "torch.Tensor":
        return self._torch.from_numpy(array).to(self._place)


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> PyTorch:
    """Load a torch.export program and move it to the device.

    Raises ServerError where torch or the device is missing, ArtifactError on a damaged file.
    """
    check_options(options, OPTIONS)
    compiled = _flag(options, "compile")
    try:
        import torch
        from torch.export.passes import move_to_device_pass
    except ImportError as error:
        raise ServerError(f"torch cannot be imported: {error}", fix="pip install -e '.[torch]'") from error
    place = torch.device(device)
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ServerError(
            f"torch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices, {device} was asked for",
            fix="check the driver with: servemark doctor, or use --device cpu",
        )
    if not zipfile.is_zipfile(artifact):
        raise ArtifactError(f"{artifact} is truncated or no torch.export program", fix=export_command(artifact))
    try:
        _import_operators(artifact)
        program = torch.export.load(artifact)
    except Exception as error:
        # a damaged archive surfaces as anything from BadZipFile to AssertionError
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=export_command(artifact)) from error
    signature = program.graph_signature
    if (len(signature.user_inputs), len(signature.user_outputs)) != (len(inputs), len(outputs)):
        raise ArtifactError(
            f"{artifact} takes {len(signature.user_inputs)} tensors and answers {len(signature.user_outputs)}, "
            f"its configuration names {list(inputs)} and {list(outputs)}",
            fix=export_command(artifact),
        )
    if threads := thread_count(options):
        torch.set_num_threads(threads)  # of the whole process: torch has no setting per model
    # Triton's input buffers may be read-only; the model only reads them.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    module = move_to_device_pass(program, device).module()
    return PyTorch(torch.compile(module) if compiled else module, device, inputs, outputs, compiled=compiled)


def _import_operators(artifact: Path) -> None:
    """Import torchvision for a program that has an operator of it, such as RoIAlign."""
    with zipfile.ZipFile(artifact) as archive:
        graphs = [name for name in archive.namelist() if name.endswith("models/model.json")]
        if any(b"torchvision." in archive.read(name) for name in graphs):
            importlib.import_module("torchvision")


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise OptionError(f"{name} is {text!r}", fix="give true or false")
    return text == "true"
