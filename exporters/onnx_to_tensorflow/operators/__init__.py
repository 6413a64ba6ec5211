"""Operators of ONNX in TensorFlow's: importing the package registers them all. No module here imports another."""

from exporters.onnx_to_tensorflow.operators import (
    activations,
    control,
    elementwise,
    images,
    indexing,
    making,
    normalisation,
    pooling,
    products,
    recurrence,
    reductions,
    shaping,
)

__all__ = [
    "activations",
    "control",
    "elementwise",
    "images",
    "indexing",
    "making",
    "normalisation",
    "pooling",
    "products",
    "recurrence",
    "reductions",
    "shaping",
]
