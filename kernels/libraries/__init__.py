"""Other libraries than PyTorch, each in a module: they compute one ONNX node on the same arrays. Know no kernel.

PyTorch itself is not a module here, because each family has its call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Protocol

import numpy as np
import numpy.typing as npt

from servemark.plugins import module_of, names_in

TORCH = "torch"
Array = npt.NDArray[np.generic]
Attribute = int | float | Sequence[int]
Computed = tuple[Callable[[], object], Callable[[], Array]]
"""The call that is timed, and what reads its answer."""


@dataclass(frozen=True)
class Node:
    """One operator of ONNX (opset 20), of a kernel's inputs by their numbers.

    `constants` are those that a model has as weights: a library may rearrange them beforehand.
    """

    operator: str
    inputs: tuple[int, ...]
    constants: tuple[int, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


class Library(Protocol):
    """Contents of each module of this package."""

    PACKAGES: tuple[str, ...]
    """Distributions that bring it, of which one is installed."""

    def lacks(self, node: Node) -> str | None:
        """Return the reason why it cannot compute a node here, None if it can."""

    def prepare(self, node: Node, arrays: Sequence[Array], output: tuple[int, ...], cores: int) -> Computed:
        """Prepare a node on a number of threads; `output` is the shape of its answer."""


def libraries() -> list[str]:
    """Return all libraries, PyTorch first."""
    return [TORCH, *names_in(__name__)]


def library(name: str) -> Library:
    """Return the module of a library other than PyTorch. It loads nothing yet."""
    found: Library = module_of(__name__, name)
    return found


def version(name: str) -> str | None:
    """Return the installed version, None if it is not installed."""
    packages = (TORCH,) if name == TORCH else library(name).PACKAGES
    for package in packages:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None
