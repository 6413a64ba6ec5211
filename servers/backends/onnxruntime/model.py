"""Triton Python-based backend `onnxruntime`: servers.adapter over servers.engines.onnxruntime."""

from servers.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
