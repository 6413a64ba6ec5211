"""ONNX to a TensorFlow function: the operators that the zoo's graphs have, loops and recurrent layers among them.

Batch and other open sizes stay open, names and layouts of inputs and outputs stay the graph's own. Images are kept with
their channels last between the operators that TensorFlow computes that way (`values.py`). Importing it imports
TensorFlow.
"""

from exporters.onnx_to_tensorflow import control, elementwise, images, indexing, products, recurrence, shaping
from exporters.onnx_to_tensorflow.graph import Unsupported, concrete

__all__ = [
    "Unsupported",
    "concrete",
    "control",
    "elementwise",
    "images",
    "indexing",
    "products",
    "recurrence",
    "shaping",
]
