"""Parts of ONNX graphs are found wherever ONNX lets them stand; parameters, tables and FLOPs are counted or unknown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from exporters.importing import onnx_file
from exporters.importing.model_file import ModelDescription
from exporters.importing.onnx_graph import parts
from tests.support.own_models import OPEN, TABLE, WEIGHTS, dense, save

CLASSICAL = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
X, Y = [("x", TensorProto.FLOAT, (OPEN, 6))], [("y", TensorProto.FLOAT, (OPEN, 4))]
IDS = [("ids", TensorProto.INT64, (OPEN, 3))]


def constant(name: str, **value: Any) -> NodeProto:
    if "array" in value:
        value = {"value": numpy_helper.from_array(value["array"])}
    return helper.make_node("Constant", [], [name], **value)


def of(tmp_path: Path, nodes: list[NodeProto], inputs: Any = X, outputs: Any = Y, **model: Any) -> ModelDescription:
    return onnx_file.describe(save(tmp_path / "m.onnx", nodes, inputs, outputs, **model))


def test_the_value_of_a_constant_node_is_a_weight(tmp_path: Path) -> None:
    found = of(tmp_path, [constant("w", array=WEIGHTS), helper.make_node("MatMul", ["x", "w"], ["y"])])
    assert (found.parameters, found.flops({"x": (1, 6)})) == (24, 48)
    found = of(tmp_path, [constant("w", value_floats=[1.0] * 6), helper.make_node("Mul", ["x", "w"], ["y"])])
    assert found.parameters == 6


def test_weights_in_a_branch_count(tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        nodes = [constant("w", array=WEIGHTS), helper.make_node("MatMul", ["x", "w"], ["z"])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])

    yes = constant("yes", value=helper.make_tensor("v", TensorProto.BOOL, [], [True]))
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch("a"), else_branch=branch("b"))
    found = of(tmp_path, [yes, node])
    assert (found.parameters, found.flops({"x": (1, 6)})) == (1 + 2 * 24, None)


@pytest.mark.parametrize(
    ("operator", "attributes", "count"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 6, "intercepts": [0.0]}, 7),
        ("Scaler", {"offset": [0.0] * 6, "scale": [1.0] * 6}, 12),
        (
            "TreeEnsembleRegressor",
            {
                "nodes_values": [0.5, 0.0, 0.0],
                "nodes_treeids": [0] * 3,
                "nodes_nodeids": [0, 1, 2],
                "target_weights": [1.0, 2.0],
                "base_values": [0.5],
            },
            5,
        ),
    ],
)
def test_weights_of_classical_models_are_attributes(
    tmp_path: Path, operator: str, attributes: dict[str, Any], count: int
) -> None:
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    found = of(tmp_path, [node], opset_imports=CLASSICAL)
    assert (found.parameters, found.flops({"x": (1, 6)})) == (count, None)


@pytest.mark.parametrize("same", [[], [helper.make_node("Identity", ["t"], ["table"])]])
def test_a_table_in_a_constant_node_bounds_ids(tmp_path: Path, same: list[NodeProto]) -> None:
    nodes = [
        constant("t", array=TABLE[:8]),
        *same,
        helper.make_node("Gather", ["table" if same else "t", "ids"], ["rows"]),
        helper.make_node("ReduceSum", ["rows", "axes"], ["y"], keepdims=0),
    ]
    found = of(tmp_path, nodes, IDS, [("y", TensorProto.FLOAT, (OPEN, 6))])
    assert (found.ranges, found.parameters) == ({"ids": (0, 7)}, 48)


def test_whole_numbers_that_meet_the_data_are_weights_and_shapes_are_not(tmp_path: Path) -> None:
    nodes = [
        constant("numbers", array=np.arange(1000)),
        helper.make_node("Gather", ["numbers", "ids"], ["found"]),
        constant("shape", value_ints=[-1, 3]),
        helper.make_node("Reshape", ["found", "shape"], ["y"]),
    ]
    found = of(tmp_path, nodes, IDS, [("y", TensorProto.INT64, (OPEN, 3))])
    assert (found.parameters, found.ranges) == (1000, {"ids": (0, 999)})
    # arithmetic with shapes alone
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        constant("one", value_ints=[1, 2]),
        helper.make_node("Mul", ["sizes", "one"], ["wider"]),
        constant("back", value_ints=[1, 2]),
        helper.make_node("Div", ["wider", "back"], ["same"]),
        helper.make_node("Reshape", ["x", "same"], ["y"]),
    ]
    assert of(tmp_path, nodes, X, [("y", TensorProto.FLOAT, (OPEN, 6))]).parameters == 0


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("FusedMatMul", ["x", "W"], ["y"], domain="com.microsoft"),
        helper.make_node("Einsum", ["x", "W"], ["y"], equation="ij,jk->ik"),
    ],
    ids=lambda node: node.op_type,
)
def test_flops_of_what_is_not_counted_are_not_known(tmp_path: Path, node: NodeProto) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    assert of(tmp_path, [node], opset_imports=opsets).flops({"x": (1, 6)}) is None


def test_products_of_whole_numbers_count(tmp_path: Path) -> None:
    nodes = [constant("w", array=np.ones((6, 4), np.int8)), helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    ports = [("x", TensorProto.UINT8, (OPEN, 6))], [("y", TensorProto.INT32, (OPEN, 4))]
    assert of(tmp_path, nodes, *ports).flops({"x": (2, 6)}) == 96


def test_random_operators_are_named_also_in_a_branch(tmp_path: Path) -> None:
    noise = helper.make_node("RandomNormalLike", ["x"], ["z"])
    branch = helper.make_graph([noise], "b", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    yes = constant("yes", value=helper.make_tensor("v", TensorProto.BOOL, [], [True]))
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    assert of(tmp_path, [yes, node], X, [("y", TensorProto.FLOAT, (OPEN, 6))]).random == ("RandomNormalLike",)
    assert onnx_file.describe(dense(tmp_path / "dense.onnx")).random == ()


def holding(*nodes: NodeProto, functions: Any = (), **more: Any) -> ModelProto:
    """A model of these nodes, without inputs and outputs."""
    return helper.make_model(helper.make_graph(nodes, "g", [], [], **more), functions=functions)


def inside(body: ModelProto) -> ModelProto:
    return holding(helper.make_node("If", ["b"], ["y"], then_branch=body.graph))


def sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(tensor, numpy_helper.from_array(WEIGHTS[:, 0].astype("int64"), "at"), [24])


def function(tensor: TensorProto) -> onnx.FunctionProto:
    return helper.make_function("mine", "F", [], ["c"], [constant("c", value=tensor)], [helper.make_opsetid("", 18)])


def training(tensor: TensorProto) -> ModelProto:
    model = holding()
    model.training_info.add().initialization.CopyFrom(holding(initializer=[tensor]).graph)
    return model


PLACES: dict[str, Callable[[TensorProto], ModelProto]] = {
    "initializer": lambda tensor: holding(initializer=[tensor]),
    "sparse initializer": lambda tensor: holding(sparse_initializer=[sparse(tensor)]),
    "attribute": lambda tensor: holding(constant("c", value=tensor)),
    "list of an attribute": lambda tensor: holding(constant("c", values=[tensor, tensor])),
    "sparse attribute": lambda tensor: holding(constant("c", sparse_value=sparse(tensor))),
    "subgraph": lambda tensor: inside(inside(holding(initializer=[tensor]))),
    "function": lambda tensor: holding(functions=[function(tensor)]),
    "training": training,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_is_found(place: str) -> None:
    found = list(parts(PLACES[place](numpy_helper.from_array(WEIGHTS, "W")), TensorProto))
    assert any(numpy_helper.to_array(tensor).shape == WEIGHTS.shape for tensor in found if tensor.name == "W")


def test_nodes_inside_nodes_are_found() -> None:
    model = inside(inside(holding(constant("c", value_int=1))))
    assert sorted(node.op_type for node in parts(model, NodeProto)) == ["Constant", "If", "If"]
