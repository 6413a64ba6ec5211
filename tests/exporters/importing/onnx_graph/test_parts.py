"""Tensors and nodes are found wherever ONNX lets them stand."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from exporters.importing.onnx_graph.parts import parts
from tests.support.own_models import WEIGHTS


def graph(**more: object) -> GraphProto:
    return helper.make_graph([], "g", [], [], **more)  # type: ignore[arg-type]


def constant(**attribute: Any) -> NodeProto:
    return helper.make_node("Constant", [], ["c"], **attribute)


def inside(body: GraphProto) -> GraphProto:
    return helper.make_graph([helper.make_node("If", ["b"], ["y"], then_branch=body)], "outer", [], [])


def sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(tensor, numpy_helper.from_array(WEIGHTS[:, 0].astype("int64"), "at"), [24])


def function(tensor: TensorProto) -> onnx.FunctionProto:
    return helper.make_function("mine", "F", [], ["c"], [constant(value=tensor)], [helper.make_opsetid("", 18)])


def training(tensor: TensorProto) -> ModelProto:
    model = helper.make_model(graph())
    model.training_info.add().initialization.CopyFrom(graph(initializer=[tensor]))
    return model


PLACES: dict[str, Callable[[TensorProto], ModelProto]] = {
    "initializer": lambda tensor: helper.make_model(graph(initializer=[tensor])),
    "sparse initializer": lambda tensor: helper.make_model(graph(sparse_initializer=[sparse(tensor)])),
    "attribute": lambda tensor: helper.make_model(helper.make_graph([constant(value=tensor)], "g", [], [])),
    "list of an attribute": lambda tensor: helper.make_model(
        helper.make_graph([constant(values=[tensor, tensor])], "g", [], [])
    ),
    "sparse attribute": lambda tensor: helper.make_model(
        helper.make_graph([constant(sparse_value=sparse(tensor))], "g", [], [])
    ),
    "subgraph": lambda tensor: helper.make_model(inside(inside(graph(initializer=[tensor])))),
    "function": lambda tensor: helper.make_model(graph(), functions=[function(tensor)]),
    "training": training,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_is_found(place: str) -> None:
    found = list(parts(PLACES[place](numpy_helper.from_array(WEIGHTS, "W")), TensorProto))
    assert any(numpy_helper.to_array(tensor).shape == WEIGHTS.shape for tensor in found if tensor.name == "W")


def test_nodes_inside_nodes_are_found() -> None:
    model = helper.make_model(inside(inside(helper.make_graph([constant(value_int=1)], "g", [], []))))
    assert sorted(node.op_type for node in parts(model, NodeProto)) == ["Constant", "If", "If"]
