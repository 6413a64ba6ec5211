"""OpenVINO on a CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servemark.errors import ArtifactError, ServerError
from servemark.frameworks import OPENVINO_PRECISION
from servemark.workload import Arrays
from servers.engines import check_names, remedy, thread_count

if TYPE_CHECKING:
    import openvino

ARTIFACT = "model.xml"
PACKAGE = "openvino"
PROPERTIES = ("PERFORMANCE_HINT", "NUM_STREAMS", "INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT", "PERF_COUNT")
"""Options that are OpenVINO's own properties, by their names there."""
OPTIONS = ("intra_op_thread_count", *PROPERTIES)
PRODUCTS = {"Convolution", "FullyConnected", "MatMul", "GroupConvolution", "Deconvolution"}
CAPABILITIES = {"bf16": "BF16", "f16": "FP16"}


class OpenVino:
    """One compiled model and one infer request."""

    name = "openvino"

    def __init__(self, compiled: "openvino.CompiledModel", device: str, outputs: Sequence[str]) -> None:
        self.device = device
        self.compiled = compiled
        self.request = compiled.create_infer_request()
        self.scalars = {name for port in compiled.inputs if _is_scalar(port) for name in port.get_names()}
        self._outputs = [(name, compiled.output(name)) for name in outputs]

    @property
    def provider(self) -> str:
        """The plugin's devices and what they compute in, such as `CPU f32`, or `CPU int8 (f32 between)`."""
        devices = "+".join(self.compiled.get_property("EXECUTION_DEVICES"))
        floats = self.compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        return f"{devices} int8 ({floats} between)" if _has_int8(self.compiled) else f"{devices} {floats}"

    def run(self, inputs: Arrays) -> Arrays:
        """Answer one batch; the inputs are not copied, the outputs are."""
        answer = self.request.infer(inputs, share_inputs=True)
        return {name: answer[port] for name, port in self._outputs}


def load(
    artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
) -> OpenVino:
    """Compile model.xml; options are `intra_op_thread_count` and PROPERTIES, for one request at a time by default.

    What an fp32 file computes in is always f32: left to itself OpenVINO takes bf16 where a CPU has it. Raises
    ServerError where the package, the device or the asked-for type is missing.
    """
    import openvino

    if device != "cpu":
        raise ServerError(f"openvino has no {device}: it runs on the CPU here", fix="use --device cpu")
    core = openvino.Core()
    try:
        model = core.read_model(str(artifact))
        properties = _properties(model, options)
        _check_type(core, properties["INFERENCE_PRECISION_HINT"])
        compiled = core.compile_model(model, "CPU", properties)
    except RuntimeError as error:
        raise ArtifactError(f"{artifact} cannot be loaded: {error}", fix=remedy(artifact)) from error
    for kind, wanted, ports in (("inputs", inputs, compiled.inputs), ("outputs", outputs, compiled.outputs)):
        check_names(artifact, kind, wanted, [_name(port, wanted) for port in ports])
    return OpenVino(compiled, device, outputs)


def _properties(model: "openvino.Model", options: Mapping[str, str]) -> dict[str, Any]:
    written = str(model.get_rt_info(OPENVINO_PRECISION).astype(str)) if model.has_rt_info(OPENVINO_PRECISION) else "f32"
    properties: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": written}
    if threads := thread_count(options):
        properties["INFERENCE_NUM_THREADS"] = threads
    return properties | {name: options[name] for name in PROPERTIES if name in options}


def _check_type(core: "openvino.Core", precision: str) -> None:
    """Refuse a type that the CPU lacks: OpenVINO would take f32 and say nothing. Raises ServerError."""
    has = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if precision in CAPABILITIES and CAPABILITIES[precision] not in has:
        raise ServerError(
            f"this CPU does not compute in {precision}; OpenVINO finds {', '.join(has)}", fix="use --precision fp32"
        )


def _has_int8(compiled: "openvino.CompiledModel") -> bool:
    """Return True if the compiled graph computes a product in 8 bits, which its nodes report."""
    return any(
        node.get_rt_info()["layerType"].astype(str) in PRODUCTS
        and node.get_rt_info()["runtimePrecision"].astype(str) in {"i8", "u8"}
        for node in compiled.get_runtime_model().get_ops()
    )


def _is_scalar(port: "openvino.ConstOutput") -> bool:
    rank = port.partial_shape.rank
    return bool(rank.is_static and rank.get_length() == 0)


def _name(port: "openvino.ConstOutput", wanted: Sequence[str]) -> str:
    """Return the one of a port's names that is wanted, if any is."""
    return min(map(str, port.get_names()), key=lambda name: name not in wanted, default="")
