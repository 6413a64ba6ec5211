"""ONNX to a TensorFlow function: what is not declared, operator by operator, is refused by name.

Batch and other open sizes stay open, layouts of inputs and outputs stay the graph's own. Images are kept with their
channels last between the operators that TensorFlow computes that way (`values.py`). Importing it imports TensorFlow.
"""

from exporters.onnx_to_tensorflow import operators
from exporters.onnx_to_tensorflow.graph import Converted, concrete
from exporters.onnx_to_tensorflow.node import OPERATORS, Unsupported

__all__ = ["OPERATORS", "Converted", "Unsupported", "concrete", "operators"]
