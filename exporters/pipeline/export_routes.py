"""Source of an artifact: PyTorch's module, or another engine's fp32 entry, which is exported first."""

from exporters.pipeline.registry import engines, exporter
from servemark.errors import OptionError
from servemark.repository.entry import FULL
from servemark.workload import Workload

SOURCE = "onnxruntime"
"""The engine whose fp32 artifact, ONNX, the converters read."""


def route(workload: Workload, engine: str, precision: str) -> str | None:
    """Name the engine whose fp32 entry an artifact is made from; None: PyTorch's module, or the user's own file.

    Raises OptionError where an imported file has no way to the engine.
    """
    if workload.source is None:
        return SOURCE if precision in exporter(engine).FROM_ONNX else None
    texts = any(tensor.datatype == "BYTES" for tensor in (*workload.inputs, *workload.outputs))
    ways = _ways(workload.source.engine, engine, texts=texts)
    if precision not in ways:
        able = {each: _ways(workload.source.engine, each, texts=texts) for each in engines()}
        raise OptionError(
            f"{engine} in {precision} cannot be made of {workload.name}, which was imported as {workload.source.kind}"
            f"{' with strings' if texts else ''}",
            fix="use " + ", ".join(f"{each} ({' '.join(found)})" for each, found in able.items() if found),
        )
    return ways[precision]


def _ways(origin: str, engine: str, *, texts: bool) -> dict[str, str | None]:
    """Precision -> what it is made from, of an imported artifact of `origin`; those without a way are left out.

    The converters know no strings (`texts`).
    """
    module, has_onnx = exporter(engine), origin in {SOURCE, *exporter(SOURCE).READS}
    ways: dict[str, str | None] = {FULL: None} if engine == origin else {}
    if texts:
        return ways
    for precision in module.PRECISIONS:
        if precision in module.FROM_ONNX and has_onnx:
            ways.setdefault(precision, SOURCE)
        elif origin in module.READS:
            ways.setdefault(precision, origin)
    return ways
