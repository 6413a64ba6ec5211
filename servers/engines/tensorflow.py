"""TensorFlow: a SavedModel's `serving_default` signature, with option `jit_compile=true` compiled by XLA."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servemark.errors import ArtifactError, ServerError
from servemark.frameworks.tensorflow import TensorNames, import_tensorflow, names_of
from servemark.workload import Arrays
from servers.engines import check_names, flag, remedy, thread_count

if TYPE_CHECKING:
    import torch

ARTIFACT = "model.savedmodel"
PACKAGE = "tensorflow"
OPTIONS = ("intra_op_thread_count", "inter_op_thread_count", "jit_compile")
SIGNATURE = "serving_default"
ALIGNMENT_BYTES = 64
"""Of a tensor's memory: Eigen's largest, with AVX-512. PyTorch's own allocations have it."""


class TensorFlow:
    """One signature on one device."""

    name = "tensorflow"

    def __init__(
        self,
        module: Any,
        function: Callable[..., Any],
        names: TensorNames,
        device: str,
        outputs: Sequence[str],
        *,
        compiled: bool,
    ) -> None:
        self.device = device
        self._tf: Any = import_tensorflow()
        described = module.signatures[SIGNATURE].structured_input_signature[1]
        described = dict(zip(names.input_names(described), described.values(), strict=True))
        self.scalars = {name for name, each in described.items() if each.shape.rank == 0}
        self._module = module  # what the signature refers to lives as long as it
        self.function = function
        self.names = names
        self._place = "/CPU:0" if device == "cpu" else f"/GPU:{_number(device)}"
        self._outputs = list(outputs)
        self._compiled = compiled

    @property
    def provider(self) -> str:
        """The device as TensorFlow names it, and whether XLA compiled the graph, such as `CPU:0 graph`."""
        kind, _, number = self._place.strip("/").partition(":")
        name = self._tf.config.list_logical_devices(kind)[int(number)].name
        return f"{name.removeprefix('/device:')} {'XLA' if self._compiled else 'graph'}"

    def run(self, inputs: Arrays) -> Arrays:
        with self._tf.device(self._place):
            tensors = {name: self._tf.convert_to_tensor(array) for name, array in inputs.items()}
            answer = self.names.answered(self.function(**self.names.fed(tensors)))
        return {name: answer[name].numpy() for name in self._outputs}

    def run_tensors(self, inputs: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        import torch

        place, dlpack = torch.device(self.device), self._tf.experimental.dlpack
        capsules = {name: _aligned(tensor).__dlpack__() for name, tensor in inputs.items()}
        if place.type == "cuda":  # TensorFlow's stream does not wait for the one that may still be writing these
            torch.cuda.default_stream(place).synchronize()
        with self._tf.device(self._place):
            tensors = {name: dlpack.from_dlpack(capsule) for name, capsule in capsules.items()}
            answer = self.names.answered(self.function(**self.names.fed(tensors)))
        if place.type == "cuda":
            self._tf.test.experimental.sync_devices()
        made = {name: torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(answer[name])) for name in self._outputs}
        # TensorFlow keeps what is int32 on the host, also on a GPU
        return {name: tensor.to(place) for name, tensor in made.items()}


def _aligned(tensor: "torch.Tensor") -> "torch.Tensor":
    """Copy a tensor where its memory is not as TensorFlow needs it, which ends the process on a wrong address."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT_BYTES else tensor


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> TensorFlow:
    """Load a SavedModel; options are `intra_op_thread_count`, `inter_op_thread_count` and `jit_compile`.

    Raises ServerError where the package or the device is missing, or where this process has already started TensorFlow
    with other threads or devices: it has one setting for all its models.
    """
    intra, inter = thread_count(options), thread_count(options, "inter_op_thread_count")
    compiled = flag(options, "jit_compile")
    tf: Any = import_tensorflow()
    _take_device(tf, device)
    _set_threads(tf, intra, inter)
    try:
        module = tf.saved_model.load(str(artifact))
        signature, names = module.signatures[SIGNATURE], names_of(artifact)
    except Exception as error:
        # a damaged directory surfaces as anything from OSError to IndexError
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=remedy(artifact)) from error
    check_names(artifact, "inputs", inputs, names.input_names(signature.structured_input_signature[1]))
    check_names(artifact, "outputs", outputs, names.answered(signature.structured_outputs))
    function = tf.function(signature, jit_compile=True, autograph=False) if compiled else signature
    return TensorFlow(module, function, names, device, outputs, compiled=compiled)


def _take_device(tf: Any, device: str) -> None:
    """Show TensorFlow no GPU, or those up to the one asked for. Raises ServerError.

    It numbers what it sees: without those before it the GPU would have another number than in CUDA, and DLPack would
    hand tensors over to the wrong one. It takes memory as it needs it, instead of all that there is.
    """
    found = tf.config.list_physical_devices("GPU")
    number = -1 if device == "cpu" else _number(device)
    if number >= len(found):
        raise ServerError(
            f"tensorflow {tf.__version__} sees {len(found)} GPUs, {device} was asked for",
            fix="install tensorflow[and-cuda] and check the driver with: servemark doctor, or use --device cpu",
        )
    wanted = found[: number + 1]
    tf.config.experimental.enable_tensor_float_32_execution(False)  # TF32 has fp16's mantissa; it is the default
    try:
        for gpu in wanted:
            tf.config.experimental.set_memory_growth(gpu, True)
        if tf.config.get_visible_devices("GPU") != wanted:
            tf.config.set_visible_devices(wanted, "GPU")
    except RuntimeError as error:
        raise ServerError(
            f"tensorflow already runs on other devices in this process: {error}", fix="use a process for each device"
        ) from error


def _set_threads(tf: Any, intra: int, inter: int) -> None:
    """Set the threads that are asked for, of the whole process. Raises ServerError."""
    threading = tf.config.threading
    try:
        if intra:
            threading.set_intra_op_parallelism_threads(intra)
        if inter:
            threading.set_inter_op_parallelism_threads(inter)
    except RuntimeError as error:
        raise ServerError(
            f"tensorflow already runs with {threading.get_intra_op_parallelism_threads()} threads in this process",
            fix="use a process for each number of threads",
        ) from error


def _number(device: str) -> int:
    return int(device.removeprefix("cuda:"))
