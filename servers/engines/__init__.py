"""Engines: what runs a model. One module each, no Triton in here.

The same engine is run in-process (the framework baseline, no server) and inside a Triton backend of its name
(`servers/modes.py` writes it), so the difference between the two is the cost of serving. A module of this
package is an engine when it has `ARTIFACT`, `PACKAGE`, `OPTIONS` and `load` (see `EngineModule`).
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from servemark.errors import ArtifactError, OptionError, ServerError
from servemark.plugins import module_of, names_in
from servemark.quantities import one_of
from servemark.repository.entry import how_to_make
from servemark.workload import Engine

if TYPE_CHECKING:
    import torch

OF_TRITON = {"FORCE_CPU_ONLY_INPUT_TENSORS", "EXECUTION_ENV_PATH"}
"""Parameters of Triton's Python backend itself; the others are the engine's options."""


@runtime_checkable
class DeviceEngine(Protocol):
    """An engine that also takes PyTorch's tensors where it runs, so that they need not pass through the host."""

    def run_tensors(self, inputs: "Mapping[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
        """Answer one batch with tensors on the engine's device, which are complete when it returns."""


class EngineModule(Protocol):
    """Interface of an engine's module."""

    ARTIFACT: str
    """The file name Triton expects in a model's version directory."""
    PACKAGE: str
    """The package that it runs on, and the extra that installs it."""
    OPTIONS: Sequence[str]
    """Names of its options; others are refused."""

    def load(
        self, artifact: Path, device: str, inputs: Sequence[str], outputs: Sequence[str], options: Mapping[str, str]
    ) -> Engine:
        """Load an artifact; see `load_engine`."""


def engine_names() -> list[str]:
    """List the engines there are, whether or not their package is installed."""
    return names_in(__name__)


def engine_module(name: str) -> EngineModule:
    """Import the module of an engine. Raises OptionError on an unknown name."""
    one_of("engine", name, engine_names())
    found: EngineModule = module_of(__name__, name)
    return found


def load_engine(
    name: str,
    artifact: Path,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    device: str = "cpu",
    options: Mapping[str, str] | None = None,
) -> Engine:
    """Load an artifact on a device (`cpu`, `cuda:N`), and nowhere else.

    `inputs` and `outputs` are the tensor names in the order of the model's forward pass. `options` are Triton's
    model parameters (`intra_op_thread_count` and the engine's own), as strings. Raises OptionError on an unknown
    engine, device or option, ServerError where a package or an asked-for device is missing, ArtifactError on a
    missing or damaged artifact.
    """
    module, options = engine_module(name), options or {}
    if device != "cpu" and not (device.startswith("cuda:") and device[5:].isdecimal()):
        raise OptionError(f"device {device!r} is unknown", fix="use cpu or cuda:N, such as cuda:0")
    if not artifact.exists():  # a SavedModel is a directory
        raise ArtifactError(f"{artifact} is not there", fix=remedy(artifact, force=False))
    if unknown := sorted(options.keys() - {*module.OPTIONS}):  # the engine would ignore it in silence
        raise OptionError(f"unknown engine option {', '.join(unknown)}", fix=f"use: {', '.join(module.OPTIONS)}")
    try:
        return module.load(artifact, device, inputs, outputs, options)
    except ImportError as error:
        raise ServerError(
            f"{module.PACKAGE} cannot be imported: {error}", fix=f"pip install -e '.[{module.PACKAGE}]'"
        ) from error


def load_model(config: Mapping[str, Any], version: Path, device: str) -> Engine:
    """Load one instance on a device; `config` is the model's configuration as Triton gives it in JSON.

    `version` is the model's version directory. Raises what `load_engine` does.
    """
    name = config["backend"]
    usual = version / engine_module(name).ARTIFACT
    named = version / (config.get("default_model_filename") or usual.name)
    return load_engine(
        name,
        named if named.exists() else usual,  # Triton fills in file names of its own, such as `model.pt`
        inputs=model_inputs(config),
        outputs=model_outputs(config),
        device=device,
        options=engine_options(config),
    )


def model_inputs(config: Mapping[str, Any]) -> list[str]:
    """List a model's inputs: those of its clients, then Triton's controls of a sequence and its states."""
    batching = config.get("sequence_batching") or {}
    controls = [each["name"] for each in batching.get("control_input") or []]
    known = [each["name"] for each in config["input"]]
    return known + controls + [each["input_name"] for each in batching.get("state") or []]


def model_outputs(config: Mapping[str, Any]) -> list[str]:
    """List a model's outputs: those for its clients, then the states of a sequence."""
    known = [each["name"] for each in config["output"]]
    states = (config.get("sequence_batching") or {}).get("state") or []
    return known + [each["output_name"] for each in states if each["output_name"] not in known]


def engine_options(config: Mapping[str, Any]) -> dict[str, str]:
    """Gather the engine's options: the model's parameters, and the accelerator where one is configured."""
    parameters = config.get("parameters", {})
    options = {key: value["string_value"] for key, value in parameters.items() if key not in OF_TRITON}
    accelerators = config.get("optimization", {}).get("execution_accelerators", {})
    for accelerator in accelerators.get("gpu_execution_accelerator", []):
        options["execution_accelerator"] = accelerator["name"]
    return options


def remedy(artifact: Path, *, force: bool = True) -> str:
    """Advise how the artifact <repository>/<model>/<version>/<file> is made again."""
    return how_to_make(artifact.resolve().parent.parent, force=force)


def check_names(artifact: Path, kind: str, wanted: Sequence[str], found: Collection[str]) -> None:
    """Compare the tensors of an artifact, its `kind` inputs or outputs, with its configuration. Raises ArtifactError.

    Every input has to be given; outputs that nobody asks for do no harm.
    """
    if not set(wanted) <= set(found) or (kind == "inputs" and len(found) != len(wanted)):
        raise ArtifactError(
            f"{artifact} has the {kind} {sorted(found)}, its configuration says {list(wanted)}",
            fix=remedy(artifact),
        )


def thread_count(options: Mapping[str, str], name: str = "intra_op_thread_count") -> int:
    """Read a number of threads; 0 leaves it to the engine. Raises OptionError."""
    text = options.get(name, "0")
    if not text.isdecimal():
        raise OptionError(f"{name} is {text!r}", fix="give a whole number; 0 leaves it to the engine")
    return int(text)


def flag(options: Mapping[str, str], name: str) -> bool:
    """Read an option that is on or off; off where it is not given. Raises OptionError."""
    text = options.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise OptionError(f"{name} is {text!r}", fix="give true or false")
    return text == "true"
