"""Finds the exporters: every module of `exporters` is one."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol

from exporters.pipeline.job import Job
from exporters.pipeline.parity import Run
from servemark.errors import OptionError
from servemark.plugins import modules_of
from servemark.quantities import one_of
from servemark.workload import Workload
from servemark.workload.agreement import PRECISIONS


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
