"""Triton Python-based backend `tensorrt`: servers.adapter over servers.engines.tensorrt."""

from servers.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
