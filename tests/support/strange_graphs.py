"""Graphs as other people's files have them, small: each of one kind that a pass has to mend or to refuse.

Every graph has an input x and an output y in float32, and the first dimension is the batch.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

node = helper.make_node
Sizes = Sequence[int | str]
IMAGE: Sizes = ["n", 3, 8, 8]
ROW: Sizes = ["n", 8]


def weights(*shape: int) -> npt.NDArray[np.float32]:
    """Make weights of a fixed seed whose products stay near 1."""
    made = np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)
    return made / np.float32(np.sqrt(np.prod(shape[1:])))


def graph(
    nodes: Sequence[NodeProto],
    constants: Mapping[str, Any],
    shape: Sizes,
    *,
    opset: int = 18,
    as_inputs: bool = False,
    domains: Mapping[str, int] | None = None,
) -> ModelProto:
    """Make a model; `as_inputs` lists the constants among the inputs, as old files do."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if as_inputs:
        inputs += [helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)) for each in tensors]
    output = helper.make_tensor_value_info(
        "y", TensorProto.FLOAT, ["n", *(f"y{axis}" for axis in range(1, len(shape)))]
    )
    made = helper.make_graph(nodes, "g", inputs, [output], tensors)
    opsets = {"": opset} | dict(domains or {})
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(made, opset_imports=imports, ir_version=6 if opset < 13 else 9)


def _between(nodes: Sequence[NodeProto], constants: Mapping[str, Any], **options: Any) -> ModelProto:
    """Put nodes from c to u between two convolutions."""
    first, last = node("Conv", ["x", "k"], ["c"], pads=[1] * 4), node("Conv", ["u", "l"], ["y"], pads=[1] * 4)
    kernels = {"k": weights(8, 3, 3, 3), "l": weights(4, 8, 3, 3)}
    return graph([first, *nodes, last], {**constants, **kernels}, IMAGE, **options)


def _sizes_from_shape() -> ModelProto:
    """Compute the scales of a Resize from a shape: 1000 / 3 in float16 is another size."""
    return _between(
        [
            node("Shape", ["c"], ["s"]),
            node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
            node("Mul", ["f", "third"], ["g"]),
            node("Add", ["g", "many"], ["h"]),
            node("Sub", ["h", "many"], ["i"]),
            node("Div", ["i", "f"], ["j"]),
            node("Concat", ["ones", "j"], ["scales"], axis=0),
            node("Slice", ["scales", "two", "six"], ["last"]),
            node("Resize", ["c", "", "last"], ["u"], mode="nearest"),
        ],
        {
            "third": np.array([1, 1, 1.375, 1.375], np.float32),
            "many": np.array([0, 0, 2049, 2049], np.float32),
            "ones": np.ones(2, np.float32),
            "two": np.array([2]),
            "six": np.array([6]),
        },
    )


def _condition() -> ModelProto:
    """Choose between a constant and what the outer graph made."""
    answer = [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)]
    two = numpy_helper.from_array(np.full((1, 8, 1, 1), 2, np.float32))
    then = helper.make_graph([node("Mul", ["c", "half"], ["a"])], "then", [], answer)
    other = helper.make_graph([node("Constant", [], ["a"], value=two)], "other", [], answer)
    return _between(
        [
            node("ReduceMax", ["c"], ["m"], keepdims=0),
            node("Greater", ["m", "zero"], ["b"]),
            node("If", ["b"], ["u"], then_branch=then, else_branch=other),
        ],
        {"half": np.array(0.5, np.float32), "zero": np.array(-1e4, np.float32)},
    )


def _sequence() -> ModelProto:
    return _between(
        [
            node("SplitToSequence", ["c", "four"], ["s"], axis=1),
            node("SequenceAt", ["s", "one"], ["p"]),
            node("Concat", ["p", "p"], ["u"], axis=1),
        ],
        {"four": np.array(4), "one": np.array(1)},
    )


def _gemm(bias: npt.NDArray[np.float32], **attributes: Any) -> ModelProto:
    return graph([node("Gemm", ["x", "w", "b"], ["y"], **attributes)], {"w": weights(8, 4), "b": bias}, ROW)


HALVES: Mapping[str, Callable[[], ModelProto]] = {
    "scales of a Resize": lambda: _between(
        [node("Resize", ["c", "", "s"], ["u"], mode="nearest")], {"s": np.array([1, 1, 1.3, 1.3], np.float32)}
    ),
    "scales from a shape": _sizes_from_shape,
    "Upsample of opset 9": lambda: _between(
        [node("Upsample", ["c", "s"], ["u"], mode="nearest")], {"s": np.array([1, 1, 2, 2], np.float32)}, opset=9
    ),
    "mean of a LayerNormalization": lambda: graph(
        [
            node("MatMul", ["x", "v"], ["t"]),
            node("LayerNormalization", ["t", "g"], ["z", "m"]),
            node("Add", ["z", "m"], ["a"]),
            node("MatMul", ["a", "w"], ["y"]),
        ],
        {"g": np.ones(8, np.float32), "v": weights(8, 8), "w": weights(8, 4)},
        ROW,
    ),
    "variance beyond float16": lambda: _between(
        [node("Mul", ["c", "much"], ["m"]), node("BatchNormalization", ["m", *"sbea"], ["u"])],
        {
            "much": np.array(1e4, np.float32),
            **{name: np.full(8, value, np.float32) for name, value in zip("sbea", (1, 0, 0, 1e8), strict=True)},
        },
    ),
    "Celu": lambda: _between([node("Celu", ["c"], ["u"])], {}),
    "quantised activations": lambda: _between(
        [node("QuantizeLinear", ["c", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["u"])],
        {"s": np.array(0.04, np.float32), "z": np.array(128, np.uint8)},
        opset=13,
    ),
    "value_float": lambda: _between(
        [node("Constant", [], ["two"], value_float=2.0), node("Mul", ["c", "two"], ["u"])], {}
    ),
    "value_floats": lambda: _between(
        [node("Constant", [], ["two"], value_floats=[2.0]), node("Mul", ["c", "two"], ["u"])], {}
    ),
    "ai.onnx.ml": lambda: graph(
        [
            node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.0] * 8, scale=[2.0] * 8),
            node("MatMul", ["s", "w"], ["y"]),
        ],
        {"w": weights(8, 4)},
        ROW,
        domains={"ai.onnx.ml": 1},
    ),
    "com.microsoft, of types that ONNX does not infer": lambda: _between(
        [node("Gelu", ["c"], ["t"], domain="com.microsoft"), node("Relu", ["t"], ["u"])],
        {},
        domains={"com.microsoft": 1},
    ),
    "condition": _condition,
    "sequence": _sequence,
    "reducing ScatterND": lambda: _between(
        [node("ScatterND", ["c", "i", "v"], ["u"], reduction="add")],
        {"i": np.zeros((1, 4), np.int64), "v": np.ones(1, np.float32)},
    ),
    "constant of both types": lambda: _between(
        [node("Max", ["c", "mask"], ["t"]), node("Add", ["t", "mask"], ["s"]), node("Sub", ["s", "mask"], ["u"])],
        {"mask": np.array(0.25, np.float32)},
    ),
}
"""Kind -> a graph whose convolutions or products compute in float16, however much stays in float32 between them."""

PRODUCTS: Mapping[str, Callable[[], ModelProto]] = {
    **{
        f"Conv of opset {opset}": functools.partial(_between, [node("Relu", ["c"], ["u"])], {}, opset=opset)
        for opset in (7, 11, 12, 13)
    },
    "weights are inputs": lambda: graph(
        [node("Gemm", ["x", "w", "b"], ["y"])],
        {"w": weights(8, 4), "b": weights(4)},
        ROW,
        as_inputs=True,
        opset=13,
    ),
    "weights in Constant nodes": lambda: graph(
        [node("Constant", [], ["w"], value=numpy_helper.from_array(weights(8, 4))), node("MatMul", ["x", "w"], ["y"])],
        {},
        ROW,
    ),
    "bias of two dimensions": lambda: _gemm(weights(1, 4)),
    "bias for all": lambda: _gemm(np.array(0.5, np.float32)),
    "bias for rows": lambda: _gemm(np.arange(4, dtype=np.float32).reshape(4, 1), beta=2.0),
    "factors": lambda: _gemm(weights(4), alpha=0.5, beta=3.0),
    "no bias, without a name": lambda: graph([node("Gemm", ["x", "w", ""], ["y"])], {"w": weights(8, 4)}, ROW),
    "MatMul in three dimensions": lambda: graph(
        [node("MatMul", ["x", "w"], ["y"])], {"w": weights(3, 8, 4)}, ["n", 3, 5, 8]
    ),
    "weights first": lambda: graph([node("MatMul", ["w", "x"], ["y"])], {"w": weights(4, 5)}, ["n", 5, 8]),
    "weights for both ways": lambda: graph(
        [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Gemm", ["r", "w"], ["y"], transB=1)],
        {"w": weights(8, 8)},
        ROW,
    ),
    "one bias for two": lambda: graph(
        [node("Gemm", ["x", "v", "b"], ["a"]), node("Relu", ["a"], ["r"]), node("Gemm", ["r", "w", "b"], ["y"])],
        {"v": weights(8, 8), "w": 20 * weights(8, 8), "b": weights(8)},
        ROW,
    ),
    "Conv in one dimension": lambda: graph([node("Conv", ["x", "k"], ["y"])], {"k": weights(4, 3, 3)}, ["n", 3, 9]),
}
"""Kind -> a graph whose products are quantised to int8."""

REFUSED: Mapping[str, tuple[Callable[[], ModelProto], str, str]] = {
    "no weights, int8": (
        lambda: graph([node("Relu", ["x"], ["y"])], {}, ROW),
        "int8",
        "no weights to quantise: no Conv",
    ),
    "no weights, fp16": (
        lambda: graph([node("Relu", ["x"], ["y"])], {}, ROW),
        "fp16",
        "none of its operators computes in fp16: Relu would stay in float32",
    ),
    "quantised already": (HALVES["quantised activations"], "int8", r"quantised already \(1 DequantizeLinear, 1 Quant"),
    "int8 in name only": (
        lambda: graph(
            [
                node("GRU", ["x", "w", "r"], ["h"], hidden_size=32),
                node("Squeeze", ["h", "one"], ["s"]),
                node("MatMul", ["s", "p"], ["y"]),
            ],
            {"w": weights(1, 96, 32), "r": weights(1, 96, 32), "p": weights(32, 21), "one": np.array([1])},
            [5, "n", 32],
        ),
        "int8",
        "quantise 10% of the weights; it has no static quantisation for: GRU 90%",
    ),
    "ConvTranspose": (
        lambda: graph([node("ConvTranspose", ["x", "k"], ["y"])], {"k": weights(3, 4, 2, 2)}, IMAGE),
        "int8",
        "no static quantisation for: ConvTranspose 100%",
    ),
}
"""Kind -> a graph, a precision and the words of the refusal."""
