"""Triton Python-based backend `openvino`: servers.triton_backend.adapter over servers.engines.openvino."""

from servers.triton_backend.adapter import Adapter as TritonPythonModel

__all__ = ["TritonPythonModel"]
