"""Triton Python-based backend `tensorflow`: servers.adapter over servers.engines.tensorflow."""

from servers.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
