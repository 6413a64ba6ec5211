"""TensorFlow: a SavedModel's `serving_default` signature, with option `jit_compile=true` compiled by XLA."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.quiet_tensorflow import import_tensorflow
from servers.engines import Arrays, check_options, export_command, thread_count

ARTIFACT = "model.savedmodel"
OPTIONS = ("intra_op_thread_count", "inter_op_thread_count", "jit_compile")
SIGNATURE = "serving_default"


class TensorFlow:
    """One signature on one device."""

    name = "tensorflow"

    def __init__(self, module: Any, function: Callable[..., Any], device: str, outputs: Sequence[str]) -> None:
        self.device = device
        self.compiled = False
        self._tf: Any = import_tensorflow()
        self._module = module  # what the signature refers to lives as long as it
        self._function = function
        self._place = "/CPU:0" if device == "cpu" else "/GPU:0"
        self._outputs = list(outputs)

    @property
    def provider(self) -> str:
        """The device as TensorFlow names it, and whether XLA compiled the graph, such as `CPU:0 graph`."""
        kind = self._place.strip("/").partition(":")[0]
        number = self._tf.config.list_logical_devices(kind)[0].name.rpartition(":")[2]
        return f"{kind}:{number} {'XLA' if self.compiled else 'graph'}"

    def run(self, inputs: Arrays) -> Arrays:
        """Answer one batch."""
        with self._tf.device(self._place):
            tensors = {name: self._tf.convert_to_tensor(array) for name, array in inputs.items()}
            answer = self._function(**tensors)
        return {name: answer[name].numpy() for name in self._outputs}


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> TensorFlow:
    """Load a SavedModel; options are `intra_op_thread_count`, `inter_op_thread_count` and `jit_compile`.

    Raises ServerError where the package or the device is missing, or where this process has already started TensorFlow
    with other threads or devices: it has one setting for all its models.
    """
    check_options(options, OPTIONS)
    intra, inter = thread_count(options), _count(options, "inter_op_thread_count")
    compiled = _flag(options, "jit_compile")
    try:
        tf: Any = import_tensorflow()
    except ImportError as error:
        raise ServerError(f"tensorflow cannot be imported: {error}", fix="pip install -e '.[tensorflow]'") from error
    _take_device(tf, device)
    _set_threads(tf, intra, inter)
    try:
        module = tf.saved_model.load(str(artifact))
        signature = module.signatures[SIGNATURE]
    except Exception as error:
        # a damaged directory surfaces as anything from OSError to IndexError
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=export_command(artifact)) from error
    _check_names(artifact, "inputs", inputs, signature.structured_input_signature[1])
    _check_names(artifact, "outputs", outputs, signature.structured_outputs)
    function = tf.function(signature, jit_compile=True, autograph=False) if compiled else signature
    engine = TensorFlow(module, function, device, outputs)
    engine.compiled = compiled
    return engine


def _take_device(tf: Any, device: str) -> None:
    """Show TensorFlow the asked-for GPU or none: it takes all memory of each that it sees. Raises ServerError."""
    found = tf.config.list_physical_devices("GPU")
    number = -1 if device == "cpu" else int(device.removeprefix("cuda:"))
    if number >= len(found):
        raise ServerError(
            f"tensorflow {tf.__version__} sees {len(found)} GPUs, {device} was asked for",
            fix="install tensorflow[and-cuda] and check the driver with: servemark doctor, or use --device cpu",
        )
    wanted = [] if device == "cpu" else [found[number]]
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


def _check_names(artifact: Path, kind: str, wanted: Sequence[str], found: Collection[str]) -> None:
    if not set(wanted) <= set(found) or (kind == "inputs" and len(found) != len(wanted)):
        raise ArtifactError(
            f"{artifact} has the {kind} {sorted(found)}, its configuration says {list(wanted)}",
            fix=export_command(artifact),
        )


def _count(options: Mapping[str, str], name: str) -> int:
    text = options.get(name, "0")
    if not text.isdecimal():
        raise OptionError(f"{name} is {text!r}", fix="give a whole number; 0 leaves it to the engine")
    return int(text)


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise OptionError(f"{name} is {text!r}", fix="give true or false")
    return text == "true"
