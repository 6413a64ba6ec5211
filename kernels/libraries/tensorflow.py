"""TensorFlow's own operators, in a traced function. Convolution and pooling have channels last, which its CPU wants.

Data is laid out before the calls are timed, as it would be within a model.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernels.libraries import Array, Computed, Node
from servemark.frameworks.tensorflow import import_tensorflow

UNARY = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax", "Gelu": "gelu"}
"""Of `tensorflow.nn`."""
OTHERS = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Max": "maximum",
    "MatMul": "matmul",
    "Gather": "gather",
}
PICTURES = ("Conv", "MaxPool", "AveragePool")
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Channels last, and first again."""


def lacks(node: Node) -> str | None:
    """It computes what is one operator of its own."""
    if node.operator not in (*UNARY, *OTHERS, *PICTURES, "Gemm"):
        return f"tensorflow has no {node.operator} as one operator"
    if node.operator in PICTURES and len(_sizes(node, "kernel_shape")) != 2:
        return "tensorflow: pictures of two dimensions alone"
    grouped = node.operator == "Conv" and node.attributes["group"] != 1
    return "tensorflow has no grouped convolution on a CPU" if grouped else None


def prepare(node: Node, arrays: Sequence[Array], output: tuple[int, ...], cores: int) -> Computed:  # noqa: ARG001
    """A traced function of tensors; threads are set once in a process."""
    tensorflow = import_tensorflow()
    with contextlib.suppress(RuntimeError):  # it computes already, with the threads of the first case
        tensorflow.config.threading.set_intra_op_parallelism_threads(cores)
    pictures = node.operator in PICTURES
    given = [arrays[number] for number in node.inputs]
    if pictures:
        given[0] = np.ascontiguousarray(given[0].transpose(LAST))
    if node.operator == "Conv":
        given[1] = np.ascontiguousarray(given[1].transpose(2, 3, 1, 0))
    tensors = [tensorflow.constant(array) for array in given]
    function = tensorflow.function(_function(tensorflow, node)).get_concrete_function(*tensors)
    answer: list[Any] = []

    def run() -> object:
        answer[:] = [function(*tensors)]
        return answer

    def read() -> Array:
        found: Array = answer[0].numpy()
        return np.ascontiguousarray(found.transpose(FIRST)) if pictures else found

    return run, read


def _function(tensorflow: Any, node: Node) -> Callable[..., Any]:
    """The operator with its attributes."""
    if node.operator in PICTURES:
        return _of_pictures(tensorflow, node)
    if node.operator == "Gemm":
        return _product(tensorflow, node)
    place = tensorflow.nn if node.operator in UNARY else tensorflow
    function: Callable[..., Any] = getattr(place, {**UNARY, **OTHERS}[node.operator])
    return function


def _product(tensorflow: Any, node: Node) -> Callable[..., Any]:
    first, second = (bool(node.attributes.get(name)) for name in ("transA", "transB"))

    def product(a: Any, b: Any, *bias: Any) -> Any:
        found = tensorflow.matmul(a, b, transpose_a=first, transpose_b=second)
        return tensorflow.nn.bias_add(found, *bias) if bias else found

    return product


def _of_pictures(tensorflow: Any, node: Node) -> Callable[..., Any]:
    attributes: dict[str, Any] = dict(node.attributes)
    before, after = attributes["pads"][:2], attributes["pads"][2:]
    padding = [[0, 0], *map(list, zip(before, after, strict=True)), [0, 0]]
    strides = list(attributes["strides"])
    if node.operator == "Conv":
        dilations = list(attributes["dilations"])
        return lambda data, weights: tensorflow.nn.conv2d(data, weights, strides, padding, dilations=dilations)
    kind = tensorflow.nn.max_pool2d if node.operator == "MaxPool" else tensorflow.nn.avg_pool2d
    window = list(attributes["kernel_shape"])
    if any(map(any, padding)):
        fill = float("-inf") if node.operator == "MaxPool" else 0.0
        return lambda data: kind(tensorflow.pad(data, padding, constant_values=fill), window, strides, "VALID")
    return lambda data: kind(data, window, strides, "VALID")


def _sizes(node: Node, name: str) -> list[int]:
    found = node.attributes[name]
    assert isinstance(found, Sequence)
    return list(found)
