"""Operators on single elements, in whichever layout their inputs have."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import helper

from exporters.onnx_to_tensorflow.node import ANY, BOOL, FLOATS, INTEGERS, NUMBERS, Node, Types, dtypes, operator
from exporters.onnx_to_tensorflow.values import Array, Value, all_of, each_of

SIGNED = FLOATS | dtypes("int8", "int16", "int32", "int64")
UNARY: dict[str, tuple[Callable[[Any], Any], Types]] = {
    "Abs": (lambda x: x if x.dtype.is_unsigned else tf.abs(x), NUMBERS),
    "Acos": (tf.acos, FLOATS),
    "Acosh": (tf.acosh, FLOATS),
    "Asin": (tf.asin, FLOATS),
    "Asinh": (tf.asinh, FLOATS),
    "Atan": (tf.atan, FLOATS),
    "Atanh": (tf.atanh, FLOATS),
    "BitwiseNot": (tf.bitwise.invert, INTEGERS),
    "Ceil": (tf.math.ceil, FLOATS),
    "Cos": (tf.cos, FLOATS),
    "Cosh": (tf.cosh, FLOATS),
    "Erf": (tf.math.erf, FLOATS),
    "Exp": (tf.exp, FLOATS),
    "Floor": (tf.floor, FLOATS),
    "Identity": (tf.identity, ANY),
    "IsNaN": (tf.math.is_nan, FLOATS),
    "Log": (tf.math.log, FLOATS),
    "Neg": (tf.negative, SIGNED),
    "Not": (tf.logical_not, BOOL),
    "Reciprocal": (tf.math.reciprocal, FLOATS),
    "Round": (tf.round, FLOATS),  # halves go to the even number, as in ONNX
    "Sign": (tf.sign, SIGNED),
    "Sin": (tf.sin, FLOATS),
    "Sinh": (tf.sinh, FLOATS),
    "Sqrt": (tf.sqrt, FLOATS),
    "Tan": (tf.tan, FLOATS),
}
NARY: dict[str, tuple[Callable[..., Any], Types]] = {
    "And": (tf.logical_and, BOOL),
    "BitwiseAnd": (tf.bitwise.bitwise_and, INTEGERS),
    "BitwiseOr": (tf.bitwise.bitwise_or, INTEGERS),
    "BitwiseXor": (tf.bitwise.bitwise_xor, INTEGERS),
    "Equal": (tf.equal, NUMBERS | BOOL),
    "Greater": (tf.greater, NUMBERS),
    "GreaterOrEqual": (tf.greater_equal, NUMBERS),
    "Less": (tf.less, NUMBERS),
    "LessOrEqual": (tf.less_equal, NUMBERS),
    "Max": (lambda *tensors: reduce(tf.maximum, tensors), NUMBERS),
    "Mean": (lambda *tensors: sum(tensors) / len(tensors), FLOATS),
    "Min": (lambda *tensors: reduce(tf.minimum, tensors), NUMBERS),
    "Mul": (tf.multiply, NUMBERS),
    "Or": (tf.logical_or, BOOL),
    "Sub": (tf.subtract, NUMBERS),
    "Sum": (lambda *tensors: sum(tensors), FLOATS),
    "Xor": (tf.math.logical_xor, BOOL),
}


def _unary(node: Node) -> Value:
    return each_of(UNARY[node.type][0], node.value(0))


def _nary(node: Node) -> Value:
    return all_of(NARY[node.type][0], [node.value(index) for index in range(len(node.inputs))])


for _name, (_, _types) in UNARY.items():
    operator(_name, types=_types)(_unary)
for _name, (_, _types) in NARY.items():
    # before 7, the shapes of two inputs were matched by attributes
    operator(_name, types=_types, since=1 if _name in {"Max", "Mean", "Min", "Sum"} else 7)(_nary)


@operator("Add", types=NUMBERS, since=7)
def add(node: Node) -> Value:
    """Add in a form that TensorFlow's optimiser takes rightly.

    It makes one operator of a product and a constant that is added to it, which then has to be of one dimension; and
    of a convolution's bias and a constant it makes one bias, also where the constant varies along the picture.
    """
    x, y = node.value(0), node.value(1)
    for term, other in ((x, y), (y, x)):
        if term.array is None or not other.has_rank:
            continue
        wider = max(0, term.rank - other.rank)
        if wider and set(term.array.shape[:wider]) == {1}:
            # The sum gets the constant's further dimensions, which the product does not have.
            found = _sum(Value(term.array.reshape(term.array.shape[wider:])), other).first
            return Value(found[(tf.newaxis,) * wider])
    return _sum(x, y)


def _sum(x: Value, y: Value) -> Value:
    x, y = _flat(x, y), _flat(y, x)
    for term, other in ((x, y), (y, x)):
        if term.array is not None and other.prefers_last and _varies_along_a_picture(term.array, other.rank):
            return all_of(tf.subtract, [other, Value(-term.array)])
    return all_of(tf.add, [x, y])


def _flat(term: Value, other: Value) -> Value:
    """Return a constant without the first dimensions of 1 that the other term has, too."""
    if term.array is None or not other.has_rank:
        return term
    shape = list(term.array.shape)
    while len(shape) > 1 and shape[0] == 1 and len(shape) <= other.rank:
        del shape[0]
    return Value(term.array.reshape(shape)) if len(shape) < term.array.ndim else term


def _varies_along_a_picture(array: Array, rank: int) -> bool:
    """Return True for floats that vary along another dimension than batch and channels."""
    sizes = [1] * (rank - array.ndim) + list(array.shape)
    return array.dtype.kind == "f" and any(size > 1 for size in sizes[2:])


@operator("Where")
def where(node: Node) -> Value:
    return all_of(tf.where, [node.value(index) for index in range(3)])


@operator("Div", types=NUMBERS, since=7)
def div(node: Node) -> Value:
    """ONNX rounds whole numbers towards zero."""
    return all_of(lambda x, y: x / y if x.dtype.is_floating else tf.truncatediv(x, y), [node.value(0), node.value(1)])


@operator("Mod", types=NUMBERS)
def mod(node: Node, *, fmod: int) -> Value:
    """The sign of the divisor; that of the dividend with fmod, which floats need."""
    floating = node.value(0).dtype.kind == "f"
    node.require(bool(fmod) or not floating, "with fmod=0 of floats")

    def remainder(x: Any, y: Any) -> Any:
        if not fmod or x.dtype.is_unsigned:
            return tf.math.floormod(x, y)
        wide = x.dtype if floating or x.dtype == tf.int64 else tf.int32
        return tf.cast(tf.truncatemod(tf.cast(x, wide), tf.cast(y, wide)), x.dtype)

    return all_of(remainder, [node.value(0), node.value(1)])


@operator("Pow", types=FLOATS | dtypes("int32", "int64"), since=7)
def power(node: Node) -> Value:
    """The exponent may have another type than the base, which is the answer's."""

    def raised(x: Any, y: Any) -> Any:
        exact = x.dtype if x.dtype.is_floating and y.dtype != tf.float64 else tf.float64
        return tf.cast(tf.pow(tf.cast(x, exact), tf.cast(y, exact)), x.dtype)

    return all_of(raised, [node.value(0), node.value(1)])


@operator("CastLike", outputs=1, ignored=("saturate", "round_mode"))
def cast_like(node: Node) -> Value:
    dtype = node.value(1).dtype
    return each_of(lambda x: tf.cast(x, dtype), node.value(0))


@operator("BitShift", types=dtypes("uint8", "uint16", "uint32", "uint64"))
def shift(node: Node, *, direction: str) -> Value:
    function = tf.bitwise.left_shift if direction == "LEFT" else tf.bitwise.right_shift

    def shifted(x: Any, y: Any) -> Any:
        return tf.where(y >= 8 * x.dtype.size, tf.zeros_like(x), function(x, y))

    return all_of(shifted, [node.value(0), node.value(1)])


@operator("Clip", types=NUMBERS)
def clip(node: Node, *, min_: Value | None, max_: Value | None) -> Value:
    def between(x: Any) -> Any:
        if min_ is not None:
            x = tf.maximum(x, tf.cast(min_.first, x.dtype))
        return x if max_ is None else tf.minimum(x, tf.cast(max_.first, x.dtype))

    return each_of(between, node.value(0))


@operator("Cast", since=6, ignored=("saturate", "round_mode"))
def cast(node: Node, *, to: int) -> Value:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(to))
    node.only(to=(dtype, ANY))
    return each_of(lambda x: tf.cast(x, dtype), node.value(0))


@operator("IsInf", types=FLOATS)
def is_infinite(node: Node, *, detect_negative: int, detect_positive: int) -> Value:
    signs = [sign for sign, wanted in ((-np.inf, detect_negative), (np.inf, detect_positive)) if wanted]
    return each_of(
        lambda x: reduce(
            tf.logical_or, [tf.equal(x, tf.cast(each, x.dtype)) for each in signs], tf.zeros_like(x, tf.bool)
        ),
        node.value(0),
    )


@operator("Dropout", types=FLOATS, outputs=2, since=7, ignored=("seed", "ratio"))
def dropout(node: Node, *, training_mode: Value | None) -> Any:
    """In inference all is kept."""
    node.require(training_mode is None or not node.known(training_mode, "training_mode").any(), "in training")
    x = node.value(0)
    return (x, tf.ones_like(x.first, tf.bool if node.version > 7 else x.first.dtype)) if node.wants(1) else x
