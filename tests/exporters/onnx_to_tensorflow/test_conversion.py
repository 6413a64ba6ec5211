"""The converter: names of any kind, absent attributes, older opsets, and a refusal by name of what is not declared."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from servemark.frameworks.tensorflow import import_tensorflow
from servemark.paths import CHECKOUT
from tests.support.onnx_models import Sizes, by_tensorflow, check, model, refusal

N = helper.make_node
IMAGE: dict[str, Sizes] = {"x": ["n", 4, 6, 6]}
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return (2 * RANDOM.standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize(
    "name", ["input.1", "0", "x:0", "self", "gpu_0/data_0", "onnx::x", "class", "_x", "Zahl ä", "input_0"]
)
def test_names_of_any_kind_are_the_answers_names(name: str) -> None:
    made = model([N("Sub", [name, "X"], [f"{name}/y:0"])], {"X": ["n", 3], name: ["n", 3]}, [f"{name}/y:0"])
    check(made, {name: normal(2, 3), "X": normal(2, 3)})


def test_weights_may_be_listed_among_the_inputs() -> None:
    made = model([N("Sub", ["w", "x"], ["y"])], {"x": [2]}, ["y"], {"w": normal(2)})
    made.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    check(made, {"x": normal(2)})


@pytest.mark.parametrize("epsilon", [1e-12, 1e-5, 0.1])
def test_a_layer_normalisation_keeps_its_epsilon(epsilon: float) -> None:
    """With a small deviation: TensorFlow's own fused operator puts 0.001 in the place of any other."""
    x = normal(2, 16, 32) / 20
    node = N("LayerNormalization", ["x", "scale", "shift"], ["y"], epsilon=epsilon)
    made = model([node], {"x": ["n", 16, 32]}, ["y"], {"scale": normal(32), "shift": normal(32)})
    check(made, {"x": x})


@pytest.mark.parametrize("shape", [[5], [1, 5], [6, 1], [1, 1, 5], [1, 6, 5], [2, 1, 5], [1, 1, 1, 5]], ids=str)
def test_a_constant_is_added_to_a_product_of_a_transposed_input(shape: list[int]) -> None:
    """TensorFlow's optimiser makes one operator of these."""
    nodes = [
        N("Transpose", ["x"], ["t"], perm=[1, 0]),
        N("MatMul", ["t", "w"], ["product"]),
        N("Add", ["shift", "product"], ["y"]),
    ]
    check(model(nodes, {"x": [8, 6]}, ["y"], {"w": normal(8, 5), "shift": normal(*shape)}), {"x": normal(8, 6)})


@pytest.mark.parametrize("shape", [[9], [9, 9], [1, 1, 9, 9], [5, 9, 9], [5, 1, 1]], ids=str)
def test_a_constant_is_added_to_a_convolution_with_a_bias(shape: list[int]) -> None:
    """TensorFlow's optimiser adds two constants that follow each other at once."""
    nodes = [N("Conv", ["x", "kernel", "bias"], ["c"], pads=[1, 1, 1, 1]), N("Add", ["c", "shift"], ["y"])]
    weights = {"kernel": normal(5, 4, 3, 3), "bias": normal(5), "shift": normal(*shape)}
    check(model(nodes, {"x": ["n", 4, 9, 9]}, ["y"], weights), {"x": normal(2, 4, 9, 9)})


def test_names_that_differ_in_case_or_in_one_sign_stay_two() -> None:
    made = model(
        [N("Sub", ["a.b", "a_b"], ["d"]), N("Div", ["A_b", "d"], ["y"])],
        {name: [2] for name in ("a.b", "a_b", "A_b")},
        ["y"],
    )
    check(made, {name: normal(2) for name in ("a.b", "a_b", "A_b")})


ABSENT: dict[str, tuple[onnx.NodeProto, dict[str, Any]]] = {
    "AveragePool": (N("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}),
    "Resize": (N("Resize", ["x", "", "s"], ["y"]), {"s": np.array([1, 1, 1.5, 2], np.float32)}),
    "GridSample": (N("GridSample", ["x", "g"], ["y"]), {"g": np.clip(normal(2, 5, 5, 2) / 3, -0.9, 0.9)}),
    "RoiAlign": (
        N("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=2, sampling_ratio=2),
        {"r": np.array([[0.5, 0.5, 3, 4]], np.float32), "b": np.array([0])},
    ),
    "ConvTranspose": (
        N("ConvTranspose", ["x", "k"], ["y"], strides=[2, 2], output_shape=[11, 11]),
        {"k": normal(4, 3, 3, 3)},
    ),
    "Elu": (N("Elu", ["x"], ["y"], alpha=0.1), {}),
    "MaxPool": (N("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2], strides=[2, 2]), {}),
    "Split": (N("Split", ["x"], ["y", "z", "w"], axis=2, num_outputs=3), {}),
    "ReduceSum": (N("ReduceSum", ["x", "a"], ["y"]), {"a": np.array([], np.int64)}),
    "LayerNormalization": (N("LayerNormalization", ["x", "s"], ["y", "m", "d"]), {"s": normal(6)}),
    "DepthwiseConv": (N("Conv", ["x", "k"], ["y"], group=4, pads=[1, 1, 1, 1]), {"k": normal(8, 1, 3, 3)}),
    "DepthwiseConv with a bias": (
        N("Conv", ["x", "k", "b"], ["y"], group=4, pads=[1, 1, 1, 1]),
        {"k": normal(4, 1, 3, 3), "b": normal(4)},
    ),
    "GroupedConv": (
        N("Conv", ["x", "k"], ["y"], group=2, auto_pad="SAME_LOWER", strides=[2, 2]),
        {"k": normal(6, 2, 3, 3)},
    ),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_a_node_says_is_done_and_what_it_leaves_out_is_onnx_s_default(name: str) -> None:
    node, weights = ABSENT[name]
    check(model([node], {"x": [2, 4, 6, 6]}, list(node.output), weights), {"x": normal(2, 4, 6, 6)})


RECURRENT: dict[str, dict[str, Any]] = {
    "GRU": {},
    "GRU that resets before": {"linear_before_reset": 1, "direction": "bidirectional"},
    "LSTM": {"direction": "reverse"},
    "RNN": {"activations": ["Relu"]},
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    kind, size = name.partition(" ")[0], 5
    count = 2 if RECURRENT[name].get("direction") == "bidirectional" else 1
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind] * size
    weights = {"w": normal(count, gates, 4) / 4, "r": normal(count, gates, size) / 4, "b": normal(count, 2 * gates) / 4}
    node = N(kind, ["x", "w", "r", "b"], ["y", "h"], hidden_size=size, **RECURRENT[name])
    check(model([node], {"x": [6, "n", 4]}, ["y", "h"], weights), {"x": normal(6, 3, 4)})


OLDER: dict[str, tuple[onnx.NodeProto, int]] = {
    "relu6": (N("Clip", ["x"], ["y"], min=-6.0, max=6.0), 9),
    "softmax over all axes": (N("Softmax", ["x"], ["y"], axis=1), 11),
    "softmax by default": (N("Softmax", ["x"], ["y"]), 11),
    "mean": (N("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0), 13),
    "unsqueeze": (N("Unsqueeze", ["x"], ["y"], axes=[1]), 11),
    "pad": (N("Pad", ["x"], ["y"], pads=[0, 0, 1, 1, 0, 0, 1, 1], value=3.0), 10),
    "slice": (N("Slice", ["x"], ["y"], axes=[1, 3], starts=[1, -3], ends=[3, 9999]), 9),
    "split": (N("Split", ["x"], ["y", "z"], axis=1, split=[1, 3]), 11),
    "upsample": (N("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 3.0]), 7),
    "topk": (N("TopK", ["x"], ["y", "z"], k=2), 9),
    "dropout": (N("Dropout", ["x"], ["y"], ratio=0.5), 10),
}


@pytest.mark.parametrize("name", OLDER)
def test_older_opsets_mean_what_they_meant(name: str) -> None:
    node, opset = OLDER[name]
    check(model([node], IMAGE, list(node.output), opset=opset), {"x": 10 * normal(2, 4, 6, 6)})


REFUSED: dict[str, tuple[onnx.NodeProto, str]] = {
    "an operator": (N("Det", ["x"], ["y"], name="d"), r"Det \(node 'd'\)"),
    "an attribute": (
        N("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]),
        r"MaxPool \(for 'y', 'i'\) with output 1 \('i'\)",
    ),
    "a value": (N("RoiAlign", ["x", "r", "b"], ["y"], mode="max", sampling_ratio=1), "RoiAlign.* with mode=max"),
    "an element type": (N("Sqrt", ["x"], ["y"]), r"Sqrt.* of float16 \(input 0\)"),
    "an older meaning": (N("Add", ["x", "r"], ["y"], broadcast=1), "Add.* of version 6"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_declared_is_refused_by_name(name: str) -> None:
    node, words = REFUSED[name]
    weights: Mapping[str, Any] = {"r": np.zeros((1, 4), np.float32), "b": np.zeros(1, np.int64)}
    kind = TensorProto.FLOAT16 if "float16" in words else TensorProto.FLOAT
    opset = 6 if "version" in words else 18
    said, operators = refusal(model([node], {"x": ["n", 4, 4, 4]}, ["y"], weights, opset=opset, dtype=kind))
    assert re.search(words, said)
    assert operators == (node.op_type,)


def test_other_domains_are_refused_with_their_names() -> None:
    nodes = [
        N("TreeEnsembleRegressor", ["x"], ["z"], domain="ai.onnx.ml"),
        N("Relu", ["z"], ["y"], domain="com.microsoft"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])]
    )
    said, _ = refusal(helper.make_model(graph))
    assert said.startswith("operators ai.onnx.ml.TreeEnsembleRegressor, com.microsoft.Relu: ")


def test_a_branch_is_taken_now_or_at_each_request() -> None:
    def branch(name: str, kind: str) -> onnx.GraphProto:
        return helper.make_graph([N(kind, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])

    node = N("If", ["c"], ["y"], then_branch=branch("a", "Neg"), else_branch=branch("b", "Abs"))
    x = normal(3)
    made = model(
        [N("ReduceSum", ["x"], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["c"]), node],
        {"x": [3]},
        ["y"],
        {"zero": np.float32(0)},
    )
    for each in (x, -x):
        check(made, {"x": each})
    constant = model([node], {"x": [3]}, ["y"], {"c": np.array(False)})
    np.testing.assert_array_equal(by_tensorflow(constant, {"x": x})["y"], np.abs(x))


def test_sizes_that_will_be_asked_for_decide_what_the_file_leaves_open() -> None:
    """As PyTorch's squeeze(0), whose branches differ in their number of dimensions."""
    import_tensorflow()
    from exporters.onnx_to_tensorflow import concrete

    ends = [helper.make_tensor_value_info(name, 1, None) for name in ("squeezed", "same")]
    then = helper.make_graph([N("Squeeze", ["x", "one"], ["squeezed"])], "then", [], ends[:1])
    other = helper.make_graph([N("Identity", ["x"], ["same"])], "other", [], ends[1:])
    nodes = [
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "two"], ["size"]),
        N("Equal", ["size", "unit"], ["c"]),
        N("If", ["c"], ["z"], then_branch=then, else_branch=other),
        N("Unsqueeze", ["z", "one"], ["y"]),
    ]
    weights = {"one": np.array([1]), "two": np.array(1), "unit": np.array(1)}
    made = model(nodes, {"x": ["n", "m"]}, ["y"], weights)
    assert "number of dimensions is not known" in refusal(made)[0]
    for size, wanted in ((1, [2, 1]), (3, [2, 1, 3])):
        answer = concrete(made, {"x": [None, size]})({"x": normal(2, size)})
        assert answer["y"].shape == wanted


def test_each_parameter_is_an_attribute_or_an_input_of_its_operator() -> None:
    import_tensorflow()
    from exporters.onnx_to_tensorflow.node import OPERATORS, onnx_name

    for name, declared in OPERATORS.items():
        schema = onnx.defs.get_schema(name)
        versions = [each for each in onnx.defs.get_all_schemas_with_history() if (each.name, each.domain) == (name, "")]
        known = {each.lower() for version in versions for each in version.attributes}
        known |= {each.name.lower() for each in schema.inputs}
        assert {onnx_name(each).lower() for each in (*declared.parameters, *declared.ignored)} <= known, name
        assert set(declared.types) <= {"", *(each.type_param_str for each in schema.type_constraints)}, name


def test_the_page_lists_the_operators() -> None:
    import_tensorflow()
    from exporters.onnx_to_tensorflow import OPERATORS

    page = (CHECKOUT / "docs" / "reference" / "engines.md").read_text()
    _, _, table = page.partition("### Operators of ONNX")
    rows = re.findall(r"\| `(\w+)` \| (.*) \|", table)
    listed = {name: room for room, names in rows for name in names.split(", ")}
    assert listed == {name: each.function.__module__.rpartition(".")[2] for name, each in OPERATORS.items()}
