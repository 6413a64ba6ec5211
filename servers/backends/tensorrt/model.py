"""Triton Python-based backend `tensorrt`: servers.triton_backend.adapter over servers.engines.tensorrt."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
