"""ONNX graphs as the passes take them: one set of operators, types known, weights constant; and the check of a result.

A file of somebody else's may be of an old opset, call functions of its own, list its weights among its inputs, hold
them in Constant nodes and say no types within.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx_ir.passes import common
from onnxscript import version_converter

from servemark.errors import MAX_QUOTED, ArtifactError

IR_VERSION = 10
"""The least of a file that is changed: weights need not be inputs since 4, and each opset asks for one."""
LAST_OF_ONNX = 18
"""The opset from which onnxscript converts to newer ones; the package onnx converts to this one."""
FIX = "use fp32"


def load(source: Path, *, opset: int) -> ir.Model:
    """Read a graph with its weights, of `opset` or a newer one. Raises ArtifactError where it cannot be converted."""
    model = ir.load(source)
    ir.external_data.load_to_model(model)
    if model.functions:
        common.InlinePass()(model)
    if found := [value for value in model.graph.inputs if value.is_initializer()]:
        common.RemoveInitializersFromInputsPass()(model)
        model.ir_version = max(model.ir_version, IR_VERSION)
        assert not set(found) & set(model.graph.inputs)
    model = raised(model, opset)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    return _typed(model)


def opset_of(model: ir.Model) -> int:
    """Return the version of ONNX's own operators; a graph without any has none, which is as good as the newest."""
    return model.opset_imports.get("", onnx.defs.onnx_opset_version())


def every_node(model: ir.Model) -> Iterator[ir.Node]:
    """Walk a graph's nodes and those in the graphs within."""
    return iter(ir.traversal.RecursiveGraphIterator(model.graph))


def integer(node: ir.Node, name: str, default: int = 0) -> int:
    """Return an attribute of a node."""
    return node.attributes[name].as_int() if name in node.attributes else default


def initializer(graph: ir.Graph, name: str, content: npt.ArrayLike) -> ir.Value:
    """Give a graph a constant."""
    tensor: Any = ir.tensor(np.asarray(content), name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def check(target: Path, source: Path, precision: str) -> None:
    """Check a pass's result in full, types included. Raises ArtifactError, naming the operator."""
    try:
        onnx.checker.check_model(target, full_check=True)
    except Exception as error:  # onnx raises its own classes and ValueError
        if _is_faulty(source):
            return  # what the file says of shapes was wrong before, and a session decides
        raise ArtifactError(f"ONNX's checker refuses the graph in {precision}: {quoted(error)}", fix=FIX) from error


def quoted(error: Exception) -> str:
    """Quote the end of an error, where its reason is, in one line that ends in no colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" \n:=>")]
    return " ".join(lines)[-2 * MAX_QUOTED :].strip(" :") or type(error).__name__


def _is_faulty(source: Path) -> bool:
    try:
        onnx.checker.check_model(source, full_check=True)
    except Exception:  # as above; whatever it is, the pass did not cause it
        return True
    return False


def raised(model: ir.Model, least: int) -> ir.Model:
    """Convert a graph of an older opset. Raises ArtifactError."""
    before = opset_of(model)
    if before >= least:
        return model
    try:
        if before < LAST_OF_ONNX:
            proto = onnx.version_converter.convert_version(ir.to_proto(model), min(least, LAST_OF_ONNX))
            model = ir.from_proto(proto)
        if least > LAST_OF_ONNX:
            version_converter.convert_version(model, target_version=least, fallback=False)
        if opset_of(model) < least:
            raise RuntimeError(f"the conversion ended at opset {opset_of(model)}")
    except Exception as error:  # the converters' exceptions share no other base
        raise ArtifactError(
            f"the graph is of opset {before} and could not be converted to {least}: {quoted(error)}",
            fix=f"export it again with opset {least} or newer, or {FIX}",
        ) from error
    model.ir_version = max(model.ir_version, IR_VERSION)
    return model


def _typed(model: ir.Model) -> ir.Model:
    """Give every value a type: what ONNX cannot infer, as behind operators of com.microsoft, ONNX Runtime knows."""
    if _untyped(model):
        # onnx_ir's own pass takes a sequence for a tensor
        model = ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(model), data_prop=True))
    if values := _untyped(model):
        kinds = _types_of_a_session(model, values)
        for value in values:
            if (kind := kinds.get(str(value.name))) is not None:
                value.type = kind
    if values := _untyped(model):
        node = values[0].producer()
        raise ArtifactError(
            f"the type of {values[0].name!r} is not known, which {node.op_type if node else 'the graph'} makes",
            fix=FIX,
        )
    return model


def _untyped(model: ir.Model) -> list[ir.Value]:
    made = [value for node in every_node(model) for value in node.outputs if value.type is None and value.name]
    return [value for value in made if value.uses() or value.is_graph_output()]


def _types_of_a_session(model: ir.Model, values: Sequence[ir.Value]) -> dict[str, ir.TypeProtocol]:
    """Ask ONNX Runtime for the types of values, which become outputs for that; of those in a subgraph it tells none."""
    import onnxruntime

    proto = ir.to_proto(model)
    here = [each for each in values if (node := each.producer()) is not None and node.graph is model.graph]
    proto.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in here)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # their classes are not public
        raise ArtifactError(f"ONNX Runtime cannot load the graph: {quoted(error)}", fix=FIX) from error
    return {output.name: _type_of(output.type) for output in session.get_outputs()}


def _type_of(words: str) -> ir.TypeProtocol:
    """Read ONNX Runtime's words, such as `seq(tensor(float))`."""
    *outer, element = words.rstrip(")").split("(")
    kind: ir.TypeProtocol = ir.TensorType(ir.DataType[element.upper()])
    for each in reversed(outer[:-1]):
        kind = ir.SequenceType(kind) if each == "seq" else ir.OptionalType(kind)
    return kind


def name_nodes(graph: ir.Graph) -> None:
    """Give each node a name of its own; those that have one keep it."""
    seen: set[str] = set()
    for index, node in enumerate(graph):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type}_{index}_of_servemark"
        seen.add(node.name)
