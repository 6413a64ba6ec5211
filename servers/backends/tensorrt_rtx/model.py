"""Triton Python-based backend `tensorrt_rtx`: servers.triton_backend.adapter over servers.engines.tensorrt_rtx."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
