"""Memory of a process that loads an engine and answers a batch: a fresh process, read stage by stage (Linux)."""

import importlib
from pathlib import Path

from servemark.errors import ServerError
from servemark.frameworks.tensorflow import import_tensorflow
from servemark.profiling.measure import Order
from servemark.repository.model_config import Settings
from servemark.results.schema.profile import MemoryPart, ProfiledMemory
from servers.engines import engine_module

INFERENCES = 2
"""The first one allocates; the second shows that it was all."""
_STATUS = Path("/proc/self/status")
_KIB = 1024


def measure_memory(order: Order) -> ProfiledMemory:
    """Load and answer in this process, which has done neither yet. Raises what the engine raises, ServerError."""
    from servers.engines._loading import load_model

    inputs, entry = order.inputs(), order.entry
    entry.require()
    model = Settings().in_json(entry.read_config())
    module = engine_module(order.engine)
    _forget_peak()
    start = _mib("VmRSS")
    if order.engine == "tensorflow":
        import_tensorflow()
    else:
        importlib.import_module(module.PACKAGE)
    imported = _mib("VmRSS")
    engine = load_model(model, entry.version, order.device)
    loaded = _mib("VmRSS")
    for _ in range(INFERENCES):
        engine.run(inputs)
    answered, peak = _mib("VmRSS"), _mib("VmHWM")
    artifact = sum(file.stat().st_size for file in entry.version.rglob("*") if file.is_file()) / _KIB**2
    return {
        "batch_size": order.batch_size,
        "start_mib": start,
        "imported_mib": imported,
        "loaded_mib": loaded,
        "answered_mib": answered,
        "peak_mib": peak,
        "artifact_mib": artifact,
        "parts": parts(start, imported, loaded, answered, artifact),
    }


def parts(start: float, imported: float, loaded: float, answered: float, artifact: float) -> list[MemoryPart]:
    """Split the growth up to the answers. Weights are as large as the file: loading holds them once, the rest is named.

    An engine that maps its file holds them as it answers, so that loading grows by less than the file.
    """
    loading, answering = loaded - imported, answered - loaded
    weights = min(artifact, max(loading, 0.0) + max(answering, 0.0))
    late = max(weights - max(loading, 0.0), 0.0)
    found = {
        "engine's libraries": imported - start,
        "weights": weights,
        "loading beyond the weights": loading - (weights - late),
        "activations and workspace": answering - late,
    }
    return [{"part": name, "mib": mib} for name, mib in found.items()]


def _forget_peak() -> None:
    """Begin the peak anew (proc(5), clear_refs). Raises ServerError."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise ServerError(
            f"the peak of memory cannot be read: {error}", fix="--batches none leaves memory out"
        ) from error


def _mib(key: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return int(line.split()[1]) / _KIB
