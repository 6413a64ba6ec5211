"""Triton Python-based backend `pytorch`: servers.adapter over servers.engines.pytorch."""

from servers.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
