"""Other libraries than PyTorch, each in a module: they compute one ONNX node on the same arrays. Know no kernel.

PyTorch itself is not a module here, because each family has its call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from servemark.frameworks import distribution_of
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
    found = distribution_of(name)
    return found and found[1]


OPSET, IR_VERSION = 20, 9


def model_of(node: Node, arrays: Sequence[Array], output: tuple[int, ...]) -> bytes:
    """The model's file. Inputs are named by their numbers; the output is `out`."""
    from onnx import TensorProto, helper, numpy_helper

    given = [number for number in node.inputs if number not in node.constants]
    types = {number: helper.np_dtype_to_tensor_dtype(arrays[number].dtype) for number in given}
    attributes: dict[str, Any] = dict(node.attributes)
    graph = helper.make_graph(
        [helper.make_node(node.operator, [f"{number}" for number in node.inputs], ["out"], **attributes)],
        "kernel",
        [helper.make_tensor_value_info(f"{number}", types[number], arrays[number].shape) for number in given],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, output)],
        [numpy_helper.from_array(arrays[number], f"{number}") for number in node.constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    content: bytes = model.SerializeToString()
    return content
