"""Triton Python-based backend `openvino`: servers.adapter over servers.engines.openvino."""

from servers.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
