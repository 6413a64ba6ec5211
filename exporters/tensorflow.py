"""TensorFlow: a SavedModel made from the ONNX file, with one signature, `serving_default`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.pipeline.job import Job, Run
from servemark.errors import ArtifactError
from servemark.frameworks.tensorflow import import_tensorflow, names_of
from servemark.workload import Arrays, Tensor, Workload

if TYPE_CHECKING:
    from exporters.onnx_to_tensorflow import Converted

ARTIFACT = "model.savedmodel"
PACKAGES = ("tensorflow", "onnx", "onnxscript")
EXTRA = "tensorflow"
PRECISIONS = ("fp32",)
REFUSED = {
    "fp16": "the conversion from ONNX is made for float32 alone",
    "bf16": "the conversion from ONNX is made for float32 alone",
    "int8": "a SavedModel has no products in 8 bits; those are LiteRT's",
    "fp8": "a SavedModel has no products in 8 bits",
}
FROM_ONNX = PRECISIONS
READS = ()
DEVICE = "cpu"
WITHOUT_GPU = True

SIGNATURE = "serving_default"


def write(job: Job) -> Mapping[str, object]:
    """Write model.savedmodel: the ONNX graph in TensorFlow's operators, images channels last.

    Weights are constants, or variables where there are more than a GiB of them.
    """
    import onnx

    source = job.origin
    _tensorflow()
    from exporters.onnx_to_tensorflow import Unsupported, concrete

    model = onnx.load(source)
    try:
        converted = concrete(model, {each.name: _shape(job.workload, each) for each in job.workload.inputs})
    except Unsupported as error:
        what = f"{job.workload.name} without {', '.join(error.operators)}" if error.operators else "another model"
        raise ArtifactError(
            f"TensorFlow cannot run {job.workload.name}: unsupported: {error}",
            fix=f"export {what}, or with --engine onnxruntime; docs/reference/engines.md lists what is taken",
        ) from error
    save(converted, job.path)
    return {"signature": SIGNATURE, "image_layout_inside": "channels last"}


def save(converted: "Converted", path: Path) -> None:
    """Write a converted graph as a SavedModel."""
    tf = _tensorflow()
    module = tf.Module()
    module.answer, module.weights = converted.function, converted.variables
    tf.saved_model.save(module, str(path), signatures={SIGNATURE: converted.function})
    converted.names.write(path)


def load(path: Path, workload: Workload) -> Run:
    """Load the signature on the CPU."""
    tf = _tensorflow()
    module = tf.saved_model.load(str(path))
    function, names = module.signatures[SIGNATURE], names_of(path)

    def run(inputs: Arrays) -> Arrays:
        _ = module  # what the signature refers to lives as long as this
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        answer = names.answered(function(**names.fed(tensors)))
        return {tensor.name: answer[tensor.name].numpy() for tensor in workload.outputs}

    return run


def _shape(workload: Workload, tensor: Tensor) -> list[int | None]:
    """The sizes of a request's tensor, None for each that varies."""
    sizes = [None if size < 0 else size for size in tensor.shape]
    return [None, *sizes] if workload.batched else sizes


def _tensorflow() -> Any:
    """Import TensorFlow and keep GPUs out of its hands: it takes all memory of each that it sees."""
    tf = import_tensorflow()
    if tf.config.get_visible_devices("GPU"):
        tf.config.set_visible_devices([], "GPU")
    return tf
