"""Triton Python-based backend `onnxruntime`: servers.triton_backend.adapter over servers.engines.onnxruntime."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
