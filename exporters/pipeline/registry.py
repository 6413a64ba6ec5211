"""Finds the exporters: every module of `exporters` is one; and what each makes an artifact from."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol

from exporters.pipeline.job import Job, Run
from servemark.documents.request import PRECISIONS
from servemark.errors import OptionError
from servemark.plugins import modules_of
from servemark.quantities import one_of
from servemark.repository.entry import FULL
from servemark.workload import Workload

SOURCE = "onnxruntime"
"""The engine whose fp32 artifact, ONNX, the converters read."""


class Exporter(Protocol):
    """Interface of an engine's exporter module."""

    ARTIFACT: str
    """The file's (or directory's) name in the version directory."""
    PACKAGES: tuple[str, ...]
    """The distributions whose versions decide what is written."""
    EXTRA: str
    """The extra of pyproject.toml that installs them."""
    PRECISIONS: tuple[str, ...]
    """Precisions that it can write; the first is fp32."""
    REFUSED: Mapping[str, str]
    """The other precisions, each with the reason why there is no such export."""
    FROM_ONNX: tuple[str, ...]
    """The precisions that are made from the repository's fp32 ONNX file; the others are made from PyTorch's module."""
    READS: tuple[str, ...]
    """The engines, besides ONNX's, whose fp32 artifact can take the module's place where a model is an imported one."""
    DEVICE: str
    """Device of the model in config.pbtxt: `cpu`, or `cuda:0` for an engine that runs nowhere else."""
    WITHOUT_GPU: bool
    """It writes on a machine without a GPU too."""

    def write(self, job: Job) -> Mapping[str, object]:
        """Write `job.path` with a dynamic batch dimension; returns what the manifest should say of its format.

        Inputs and outputs keep the workload's datatypes whatever the precision. Raises ArtifactError with the engine's
        own words where it has no such operator.
        """

    def load(self, path: Path, workload: Workload) -> Run:
        """Load the artifact as it was written, on `DEVICE`, for the parity check. Raises UncheckedError."""


@cache
def _exporters() -> dict[str, Exporter]:
    return modules_of("exporters")


def engines() -> list[str]:
    """List the engines that can be exported to."""
    return list(_exporters())


def precisions(engine: str) -> tuple[str, ...]:
    """List what an engine's exporter can write. Raises OptionError."""
    return exporter(engine).PRECISIONS


def check_precision(engine: str, precision: str) -> None:
    """Check that an engine's exporter can write a precision. Raises OptionError with the reason why not."""
    module = exporter(engine)
    if precision not in module.PRECISIONS:
        reason = module.REFUSED.get(precision, f"a precision is one of {', '.join(PRECISIONS)}")
        raise OptionError(
            f"{engine} has no export in {precision}: {reason}", fix=f"use one of: {', '.join(module.PRECISIONS)}"
        )


def exporter(engine: str) -> Exporter:
    """Look up the exporter of an engine. Raises OptionError."""
    return _exporters()[one_of("engine", engine, engines())]


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
