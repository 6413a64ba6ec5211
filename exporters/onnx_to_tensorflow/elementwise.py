"""Operators on single elements, in whichever layout their inputs have, and reductions."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import helper

from exporters.onnx_to_tensorflow.graph import Node, operator
from exporters.onnx_to_tensorflow.values import Value, aligned

UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": tf.abs,
    "Elu": tf.nn.elu,
    "Exp": tf.exp,
    "Floor": tf.floor,
    "Identity": tf.identity,
    "Not": tf.logical_not,
    "Relu": tf.nn.relu,
    "Sigmoid": tf.sigmoid,
    "Sign": tf.sign,
    "Sqrt": tf.sqrt,
    "Tanh": tf.tanh,
}
NARY: dict[str, Callable[..., Any]] = {
    "Add": tf.add,
    "And": tf.logical_and,
    "Equal": tf.equal,
    "Greater": tf.greater,
    "GreaterOrEqual": tf.greater_equal,
    "Less": tf.less,
    "LessOrEqual": tf.less_equal,
    "Max": lambda *tensors: reduce(tf.maximum, tensors),
    "Min": lambda *tensors: reduce(tf.minimum, tensors),
    "Mul": tf.multiply,
    "Or": tf.logical_or,
    "Sub": tf.subtract,
    "Where": tf.where,
}
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL2": tf.math.reduce_euclidean_norm,
    "ReduceMax": tf.reduce_max,
    "ReduceMean": tf.reduce_mean,
    "ReduceMin": tf.reduce_min,
    "ReduceSum": tf.reduce_sum,
}


@operator(*UNARY)
def unary(node: Node) -> Value:
    return _each(UNARY[node.type], node.value(0))


@operator(*NARY)
def nary(node: Node) -> Value:
    return _all(NARY[node.type], node)


@operator("Div")
def div(node: Node) -> Value:
    """ONNX rounds whole numbers towards zero."""
    return _all(lambda x, y: x / y if x.dtype.is_floating else tf.truncatediv(x, y), node)


@operator("Mod")
def mod(node: Node) -> Value:
    node.require(fmod=0)
    return _all(tf.math.floormod, node)


@operator("Pow")
def power(node: Node) -> Value:
    """The exponent may have another type than the base."""
    return _all(lambda x, y: tf.pow(x, tf.cast(y, x.dtype)), node)


@operator("Clip")
def clip(node: Node) -> Value:
    def between(x: Any) -> Any:
        if node.has(1):
            x = tf.maximum(x, node.tensor(1))
        return tf.minimum(x, node.tensor(2)) if node.has(2) else x

    return _each(between, node.value(0))


@operator("Cast")
def cast(node: Node) -> Value:
    dtype = helper.tensor_dtype_to_np_dtype(node.attributes["to"])
    return _each(lambda x: tf.cast(x, dtype), node.value(0))


@operator("Softmax", "LogSoftmax")
def softmax(node: Node) -> Any:
    function = tf.nn.softmax if node.type == "Softmax" else tf.nn.log_softmax
    return function(node.tensor(0), axis=node.attributes.get("axis", -1))


@operator(*REDUCTIONS)
def reduction(node: Node) -> Value:
    node.require(noop_with_empty_axes=0)
    x, keep = node.value(0), bool(node.attributes.get("keepdims", 1))
    axes = sorted(axis % x.rank for axis in node.ints(1, range(x.rank)))
    function = REDUCTIONS[node.type]
    spatial = axes == list(range(2, x.rank))
    if not x.prefers_last or not (keep or spatial):
        return Value(function(x.first, axis=axes, keepdims=keep))
    moved = [{0: 0, 1: x.rank - 1}.get(axis, axis - 1) for axis in axes]
    found = function(x.last, axis=moved, keepdims=keep)
    return Value(last=found) if keep else Value(found)


@operator("ArgMax")
def argmax(node: Node) -> Any:
    node.require(select_last_index=0)
    axis = node.attributes.get("axis", 0)
    found = tf.argmax(node.tensor(0), axis=axis, output_type=tf.int64)
    return tf.expand_dims(found, axis) if node.attributes.get("keepdims", 1) else found


@operator("CumSum")
def cumsum(node: Node) -> Any:
    node.require(exclusive=0, reverse=0)
    return tf.cumsum(node.tensor(0), axis=int(np.ravel(node.static(1))[0]))


def _each(function: Callable[[Any], Any], value: Value) -> Value:
    return Value(last=function(value.last)) if value.prefers_last else Value(function(value.first))


def _all(function: Callable[..., Any], node: Node) -> Value:
    tensors, last = aligned([node.value(index) for index in range(len(node.inputs))])
    found = function(*tensors)
    return Value(last=found) if last else Value(found)
