"""Operators of ONNX in TensorFlow's: importing the package registers them all. No module here imports another."""

from servemark.plugins import modules_of

modules_of(__name__)
