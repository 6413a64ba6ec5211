"""Triton Python-based backend `tensorflow`: servers.triton_backend.adapter over servers.engines.tensorflow."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
