"""ONNX models of a few nodes, and their answers by ONNX Runtime, which the converter to TensorFlow has to give too."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from servemark.frameworks.tensorflow import import_tensorflow

OPSET = 18
Sizes = Sequence[int | str | None] | None


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sizes],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = OPSET,
    dtype: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Put nodes into a model whose inputs and outputs are of one type."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, dtype, sizes) for name, sizes in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def by_onnxruntime(made: onnx.ModelProto | Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Answer by ONNX Runtime."""
    import onnxruntime

    source = made if isinstance(made, Path) else made.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def by_tensorflow(made: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Answer by the converted graph."""
    tf = import_tensorflow()
    from exporters.onnx_to_tensorflow import concrete

    answer = concrete(made)({name: tf.constant(array) for name, array in inputs.items()})
    return {name: array.numpy() for name, array in answer.items()}


def check(made: onnx.ModelProto, inputs: Mapping[str, Any]) -> None:
    """Compare the two."""
    wanted, found = by_onnxruntime(made, inputs), by_tensorflow(made, inputs)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype), name
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def refusal(made: onnx.ModelProto) -> tuple[str, tuple[str, ...]]:
    """Return the words of the converter's refusal, and the operators that it is about."""
    import_tensorflow()
    from exporters.onnx_to_tensorflow import Unsupported, concrete

    try:
        concrete(made)
    except Unsupported as error:
        return str(error), error.operators
    raise AssertionError("it was converted")
