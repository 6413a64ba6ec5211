"""Finds the exporters: every module here with an `ARTIFACT`."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from servemark.artifacts import Arrays
from servemark.errors import OptionError
from servemark.models import Workload

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[Arrays], Arrays]
"""Answers one batch: tensor name -> array with the batch as dimension 0, both ways."""


class Exporter(Protocol):
    """What a module of an engine offers."""

    ARTIFACT: str
    """The file's name in the version directory."""
    PACKAGES: tuple[str, ...]
    """The distributions whose versions decide what is written."""

    def write(self, model: "nn.Module", workload: Workload, example: Arrays, path: Path) -> Mapping[str, object]:
        """Write the artifact with a dynamic batch dimension; returns what the manifest should say of its format.

        `example` is a batch of two of the workload's inputs.
        """

    def load(self, path: Path, workload: Workload) -> Run:
        """Load the artifact as it was written, on the CPU, for the parity check."""


@cache
def _exporters() -> dict[str, Exporter]:
    package = importlib.import_module("exporters")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            imported = importlib.import_module(f"{package.__name__}.{module.name}")
            if hasattr(imported, "ARTIFACT"):
                found[module.name] = cast("Exporter", imported)
    return dict(sorted(found.items()))


def engines() -> list[str]:
    """List the engines that can be exported to."""
    return list(_exporters())


def exporter(engine: str) -> Exporter:
    """Look up the exporter of an engine. Raises OptionError."""
    try:
        return _exporters()[engine]
    except KeyError:
        raise OptionError(
            f"there is no exporter for the engine {engine!r}", fix=f"use one of: {', '.join(engines())}"
        ) from None
