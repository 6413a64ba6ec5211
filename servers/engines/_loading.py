"""A model of the repository, loaded as its configuration says: in its Triton backend and in-process alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servemark.workload.engine import Engine
from servers.engines import engine_module, load_engine

OF_TRITON = {"FORCE_CPU_ONLY_INPUT_TENSORS", "EXECUTION_ENV_PATH"}
"""Parameters of Triton's Python backend itself; the others are the engine's options."""


def load_model(config: Mapping[str, Any], version: Path, device: str) -> Engine:
    """Load one instance on a device; `config` is the model's configuration as Triton gives it in JSON.

    `version` is the model's version directory. Raises what `load_engine` does.
    """
    name = config["backend"]
    return load_engine(
        name,
        _artifact(version, config.get("default_model_filename", ""), engine_module(name).ARTIFACT),
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


def _artifact(version: Path, configured: str, usual: str) -> Path:
    """Find the model file: Triton fills in file names of its own (`model.pt`), so a configured one may not be there."""
    named = version / (configured or usual)
    return named if named.exists() else version / usual
