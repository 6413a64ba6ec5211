"""`servemark run --in-process`: the framework baseline. The engine runs here, under the load of a served run."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from loadgen.evaluation.measured_run import Ended, record
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.recorder import Recorder
from loadgen.measurement.sender import Sender
from loadgen.targets.in_process import EngineThreads, InProcessTarget
from servemark.errors import ArtifactError
from servemark.repository.entry import Entry
from servemark.repository.model_config import Settings
from servemark.results.schema.run import Result
from servemark.runs.server import export_where_needed
from servemark.workload import Engine

Measure = Callable[[LoadConfig], Result]
"""Makes one run and gives its result."""
Progress = Callable[[float, Recorder], None]
"""Hears about once a second how many seconds have been measured, and what was recorded."""


@contextlib.contextmanager
def engines_for(
    config: LoadConfig,
    *,
    quiet: bool,
    on_progress: Callable[[LoadConfig], Progress],
    on_end: Ended,
) -> Iterator[Measure]:
    """Load the model as Triton would, exported first where it is missing, and yield what measures one run of it.

    `quiet` keeps stdout free. `on_progress` returns the listener of a run, `on_end` gets its result. A run that is cut
    short keeps its result, then raises KeyboardInterrupt. Raises ArtifactError, ServerError, and what the engine raises
    where it cannot be loaded.
    """
    with targets_for(config) as target_of:

        def measure(config: LoadConfig) -> Result:
            target = target_of(config)
            sender = Sender(config, target)
            measurement = Measurement(config, target, sender, on_progress=on_progress(config))
            with contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext():
                result = record(measurement, on_end=on_end)
            if result["partial"]:
                raise KeyboardInterrupt
            return result

        yield measure


@contextlib.contextmanager
def targets_for(config: LoadConfig) -> Iterator[Callable[[LoadConfig], InProcessTarget]]:
    """Load the model, exported first where it is missing, and yield what makes its target for a configuration.

    Raises as `engines_for`.
    """
    from servers.engines import engine_options

    export_where_needed([config.workload.name], config.engine, config.model_repository, config.precision)
    config.entry.require()
    model = Settings.of(config.server).in_json(config.entry.read_config())
    with EngineThreads(_loaders(config.entry, model)) as threads:
        yield lambda config: InProcessTarget(config, threads, engine_options(model))


def _loaders(entry: Entry, model: dict[str, Any]) -> list[Callable[[], Engine]]:
    """Return loaders of the model's instances, on the devices that its configuration names. Raises ArtifactError."""
    from servers.engines import load_model

    loaders: list[Callable[[], Engine]] = []
    for group in model.get("instance_group", []):
        kind = group.get("kind", "KIND_AUTO")
        if kind not in {"KIND_CPU", "KIND_GPU"}:
            raise ArtifactError(f"{entry.config} leaves the device open ({kind})", fix="name one: --device cpu")
        devices = ["cpu"] if kind == "KIND_CPU" else [f"cuda:{index}" for index in group.get("gpus", [0])]
        places = devices * group.get("count", 1)
        loaders += [functools.partial(load_model, model, entry.version, device) for device in places]
    if not loaders:
        raise ArtifactError(f"{entry.config} has no instance_group", fix="name a device: --device cpu")
    return loaders
