"""Parts of an ONNX graph, and its counts: parameters, FLOPs, rows of the tables that ids are looked up in.

A weight may be an initializer, the value of a Constant node, or an attribute of a classical model's operator.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from exporters.importing.model_file import OPEN

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message
    from onnx import GraphProto, ModelProto, NodeProto

Shape = tuple[int, ...]
Part = TypeVar("Part", bound="Message")

STANDARD = {"", "ai.onnx"}
CLASSICAL = "ai.onnx.ml"
_PRODUCTS = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger"), (0, 1)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (0, 3)),
}
"""Operator -> its inputs that are multiplied."""
_UNCOUNTED = {"Attention", "DFT", "DeformConv", "Det", "Einsum", "GRU", "LSTM", "RNN", "STFT"}
"""Operators that multiply otherwise. Those with a graph inside, and those beyond ONNX's own, are not counted either."""
_SAME_IDS = {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"}
_SAME_ROWS = {"Cast", "DequantizeLinear", "Identity"}
_SHAPES = {"Shape", "Size"}
_SECOND_IS_STRUCTURAL = (
    "AffineGrid", "CenterCropPad", "CumSum", "Expand", "Gather", "GatherElements", "GatherND", "OneHot", "Reshape",
    "ScatterElements", "ScatterND", "Split", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze",
)  # fmt: skip
_STRUCTURAL = {
    **{name: {1} for name in _SECOND_IS_STRUCTURAL},
    "Pad": {1, 3},
    "Resize": {1, 2, 3},
    "Slice": {1, 2, 3, 4},
}
"""Operator -> inputs that say where or how large, beside every axis of a reduction."""
_CLASSICAL_WEIGHTS = {
    "class_weights", "coefficients", "imputed_value_floats", "intercepts", "leaf_weights", "nodes_splits",
    "nodes_values", "offset", "prob_a", "prob_b", "rho", "scale", "support_vectors", "target_weights",
}  # fmt: skip
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def parts(model: "Message", kind: type[Part]) -> Iterator[Part]:
    """All messages of a kind, those inside others of the kind included. Fields that ONNX adds are found too."""
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if isinstance(message, kind):
            yield message
        for name, repeated in _ways(message.DESCRIPTOR, kind.DESCRIPTOR):
            if repeated:
                waiting.extend(getattr(message, name))
            elif message.HasField(name):
                waiting.append(getattr(message, name))


@functools.cache
def _ways(start: "Descriptor", end: "Descriptor") -> list[tuple[str, bool]]:
    """The fields of a message below which such a part can stand, and whether each is repeated."""

    def reaches(found: "Descriptor", seen: set[str]) -> bool:
        if found.full_name == end.full_name:
            return True
        if found.full_name in seen:
            return False
        seen.add(found.full_name)
        return any(field.message_type and reaches(field.message_type, seen) for field in found.fields)

    return [
        (field.name, field.is_repeated)
        for field in start.fields
        if field.message_type and reaches(field.message_type, set())
    ]


def parameters(model: "ModelProto") -> int:
    """Count the parameters, wherever they stand: numbers that meet the data, and neither shapes, axes nor places.

    Of a tree ensemble these are the thresholds of its nodes and the weights of its leaves.
    """
    from onnx import GraphProto, NodeProto

    total = 0
    for graph in parts(model, GraphProto):
        data = flowing(graph)
        for name, shape, whole in _constants(graph):
            if not whole or (math.prod(shape) > 1 and _meets_data(graph, name, data)):
                total += math.prod(shape)
    for node in parts(model, NodeProto):
        for each in node.attribute if node.domain == CLASSICAL else ():
            if each.name.removesuffix("_as_tensor") in _CLASSICAL_WEIGHTS:
                total += math.prod(each.t.dims) if each.type == each.TENSOR else len(each.floats)
    return total


def vocabulary(graph: "GraphProto", name: str) -> int:
    """Return the number of rows of the smallest table that an input is looked up in; 0 if there is none."""
    tables = {constant: shape for constant, shape, _ in _constants(graph)}
    ids, rows = {name}, []
    for node in graph.node:
        if node.op_type in _SAME_IDS and node.input[0] in ids:
            ids.update(node.output)
        if node.op_type in _SAME_ROWS and node.input[0] in tables:
            tables[node.output[0]] = tables[node.input[0]]
        if node.op_type == "Gather" and node.input[1] in ids and (shape := tables.get(node.input[0])):
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            if axis in {0, -len(shape)}:
                rows.append(shape[0])
    return min(rows, default=0)


def random_operators(model: "ModelProto") -> tuple[str, ...]:
    """Name the operators that answer otherwise each time."""
    from onnx import NodeProto

    found = {node.op_type for node in parts(model, NodeProto) if node.domain in STANDARD}
    return tuple(sorted(found & _RANDOM))


def flops(model: "ModelProto", shapes: Mapping[str, Shape]) -> int | None:
    """Count products as docs/explanation/metrics.md does, a multiply-add as 2; None where a node is not countable."""
    import onnx

    if model.functions or any(not _countable(node) for node in model.graph.node):
        return None
    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    for value in sized.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    for value in sized.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        graph = onnx.shape_inference.infer_shapes(sized, data_prop=True).graph
    except Exception:  # its class is not public; a model whose shapes cannot be inferred has no count
        return None
    known = {name: shape for name, shape, _ in _constants(graph)}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if value.name not in known and value.type.tensor_type.HasField("shape"):
            known[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else OPEN for dim in dims)
    total = 0
    for node in graph.node:
        if node.op_type in _PRODUCTS:
            counted = _products(node, known)
            if counted is None:
                return None
            total += 2 * counted
    return total


def flowing(graph: "GraphProto") -> set[str]:
    """Return the tensors that depend on the values of the graph's inputs, and not on their shapes alone."""
    constants = {name for name, _, _ in _constants(graph)}
    data = {value.name for value in graph.input} - constants
    for node in graph.node:
        if node.op_type not in _SHAPES and not data.isdisjoint(node.input):
            data.update(node.output)
    return data


def _constants(graph: "GraphProto") -> Iterator[tuple[str, Shape, bool]]:
    """Yield each constant of a graph: its name, sizes, and whether it holds 64-bit whole numbers, as shapes do."""
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims), tensor.data_type == tensor.INT64
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, tuple(sparse.dims), sparse.values.data_type == sparse.values.INT64
    for node in graph.node:
        if node.op_type != "Constant" or not node.output:
            continue
        for each in node.attribute:
            if each.type == each.TENSOR:
                yield node.output[0], tuple(each.t.dims), each.t.data_type == each.t.INT64
            elif each.type == each.SPARSE_TENSOR:
                yield node.output[0], tuple(each.sparse_tensor.dims), False
            elif each.type in {each.FLOAT, each.INT}:
                yield node.output[0], (), each.type == each.INT
            elif each.type in {each.FLOATS, each.INTS}:
                yield node.output[0], (len(each.floats) or len(each.ints),), each.type == each.INTS


def _meets_data(graph: "GraphProto", name: str, data: set[str]) -> bool:
    """Return True if a constant is computed with, beside data."""
    for node in graph.node:
        structural = {1} if node.op_type.startswith("Reduce") else _STRUCTURAL.get(node.op_type, set())
        places = {place for place, each in enumerate(node.input) if each == name} - structural
        if places and not data.isdisjoint(node.input):
            return True
    return False


def _countable(node: "NodeProto") -> bool:
    inside = any(each.type in {each.GRAPH, each.GRAPHS} for each in node.attribute)
    return node.domain in STANDARD and node.op_type not in _UNCOUNTED and not inside


def _products(node: "NodeProto", known: Mapping[str, Shape]) -> int | None:
    """Multiplications of one node; None where a size is not known."""
    places = _PRODUCTS[node.op_type]
    if len(node.input) <= max(places) or not node.output:
        return None
    names = (*(node.input[place] for place in places), node.output[0])
    first, second, output = (known.get(name, ()) for name in names)
    if not first or not second or OPEN in (*first, *second, *output):
        return None
    if node.op_type == "ConvTranspose":  # each input element meets each weight of its channel
        return math.prod(first) * math.prod(second[1:])
    if node.output[0] not in known:
        return None
    if "Conv" in node.op_type:
        return math.prod(output) * math.prod(second[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(output) * first[-2 if transposed else -1]
