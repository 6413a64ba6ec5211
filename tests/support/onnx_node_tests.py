"""ONNX's own backend node tests, which come with the package, asked of the converter to TensorFlow."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from servemark.frameworks.tensorflow import import_tensorflow

Array = Any
RIGHT, REFUSED = "right", "refused"
LEAST = 1e-6
"""Absolute difference that rounding explains; ONNX's own limit is relative alone."""


@dataclass(frozen=True)
class Case:
    """A model of one operator, with a request and its answers."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    rtol: float
    atol: float

    def with_constants(self) -> "Case":
        """Put the request into the graph, as exports do with what does not vary."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in self.inputs.items())
        return Case(self.name, model, {}, self.outputs, self.rtol, self.atol)


def cases() -> Iterator[Case]:
    """Load all node tests but the expanded ones, which are the definitions of others written out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their own data overflow on purpose
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    for each in found:
        if "_expanded" in each.name:
            continue
        assert each.model is not None
        assert each.data_sets
        inputs, outputs = each.data_sets[0]
        graph = each.model.graph
        yield Case(
            each.name, each.model, _named(graph.input, inputs), _named(graph.output, outputs), each.rtol, each.atol
        )


def outcome(case: Case) -> str:
    """Say `right` or `refused`, else what happened."""
    tf = import_tensorflow()
    from exporters.onnx_to_tensorflow import Unsupported, concrete

    try:
        converted = concrete(case.model)
    except Unsupported as error:
        return REFUSED if str(error) else "refused without a word"
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}"
    try:
        answer = converted({name: tf.constant(array) for name, array in case.inputs.items()})
    except Exception as error:
        return f"failed at the first run: {type(error).__name__}: {error}"
    wrong = [name for name, wanted in case.outputs.items() if not _same(answer[name].numpy(), wanted, case)]
    return f"wrong: {', '.join(wrong)}" if wrong else RIGHT


def _same(found: Array, wanted: Array, case: Case) -> bool:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return False
    if found.dtype.kind != "f":
        return bool((found == wanted).all())
    return bool(np.allclose(found, wanted, rtol=case.rtol, atol=max(case.atol, LEAST), equal_nan=True))


def _named(infos: Any, arrays: Any) -> dict[str, Array]:
    given = zip([info.name for info in infos], arrays, strict=False)
    return {name: _array(each) for name, each in given if not isinstance(each, list | dict | type(None))}


def _array(given: Any) -> Array:
    return numpy_helper.to_array(given) if isinstance(given, onnx.TensorProto) else np.asarray(given)
