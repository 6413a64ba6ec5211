"""Triton Python-based backend `pytorch`: servers.triton_backend.adapter over servers.engines.pytorch."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
