"""ONNX Runtime as its exporter and its engine share it: a setting, a model's operators, and strings, which are text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servemark.protobuf import Messages

if TYPE_CHECKING:
    import onnxruntime

Arrays = Mapping[str, npt.NDArray[np.generic]]

FP16_ON_CPU = ("optimization.disable_specified_optimizers", "MatmulTransposeFusion")
"""On some models ONNX Runtime 1.31 ends in a segmentation fault with both this fusion and the widening of weights."""
ERRORS = 3
"""ONNX Runtime's number for the severity of errors."""
_STRING = "tensor(string)"
_ONNX = Messages(
    "onnx",
    {
        "Model": "graph Graph 7",
        "Graph": "node Node* 1",
        "Node": "op_type string 4, attribute Attribute* 5",
        "Attribute": "g Graph 6, graphs Graph* 11",
    },
)
"""Fields that tell a file's operators; weights are skipped. Servers have no package onnx."""
_read: Any = np.vectorize(bytes.decode, otypes=[np.object_])
_write: Any = np.vectorize(str.encode, otypes=[np.object_])


def import_onnxruntime() -> Any:
    """Import ONNX Runtime and have it print errors alone, in every session of this process that asks for nothing else.

    Its warnings are coloured lines about how it rewrites a graph, which tell nothing of the answers.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(ERRORS)
    return onnxruntime


def operators(file: Path) -> set[str]:
    """Name the operators of an ONNX file, those in loops and branches included. Raises DecodeError."""
    found: set[str] = set()
    graphs = [_ONNX.parse("Model", file.read_bytes()).graph]
    while graphs:
        for node in graphs.pop().node:
            found.add(node.op_type)
            graphs += [graph for each in node.attribute for graph in (each.g, *each.graphs)]
    return found


class Session:
    """A session that takes and gives elements of BYTES where the model has strings, which have to be UTF-8."""

    def __init__(self, session: "onnxruntime.InferenceSession", outputs: Sequence[str]) -> None:
        self._session, self._outputs = session, list(outputs)
        self._texts_in = [node.name for node in session.get_inputs() if node.type == _STRING]
        self._texts_out = {node.name for node in session.get_outputs() if node.type == _STRING} & set(outputs)

    def run(self, inputs: Arrays) -> Arrays:
        """Answer a batch. Raises what ONNX Runtime raises, UnicodeDecodeError for bytes that are not text."""
        if self._texts_in:
            inputs = {**inputs, **{name: _read(inputs[name]) for name in self._texts_in}}
        answer = dict(zip(self._outputs, self._session.run(self._outputs, inputs), strict=True))
        return {**answer, **{name: _write(answer[name]) for name in self._texts_out}} if self._texts_out else answer
