"""Another engine that an imported file can be compared on: installed here, and with a converter that reads the file."""

from pathlib import Path

from exporters.pipeline.export import require_exporter
from exporters.pipeline.registry import SOURCE, route
from servemark.errors import ServemarkError
from servemark.repository.entry import FULL
from servemark.workload import Workload

ENGINES = ("openvino", "onnxruntime")
"""The order in which they are suggested. A TensorFlow or TensorRT export takes too long to be tried at import."""


def other_engine(workload: Workload, artifact: Path) -> str | None:
    """Name an engine beside the file's own; None if there is none. The model itself is not run on it."""
    assert workload.source is not None
    own = workload.source.engine
    for engine in ENGINES:
        if engine == own:
            continue
        try:
            route(workload, engine, FULL)
            require_exporter(engine, FULL)
        except ServemarkError:
            continue
        if engine != "openvino" or own != SOURCE or _openvino_reads(artifact):
            return engine
    return None


def _openvino_reads(artifact: Path) -> bool:
    """Return True if OpenVINO knows all operators of an ONNX file."""
    import openvino

    try:
        openvino.Core().read_model(str(artifact))
    except Exception:  # OpenVINO raises RuntimeError and classes of its C extension
        return False
    return True
