"""Exporters bent for a test: one part of an engine's module is another, the rest its own."""

from types import SimpleNamespace
from typing import Any

from exporters._registry import Exporter

FROM_TORCH = ("onnxruntime", "pytorch")
"""The engines whose artifacts are written from the PyTorch module; the others read the ONNX file."""


def variant(module: Exporter, **changes: Any) -> Any:
    """The module with some of its names changed."""
    names = ("ARTIFACT", "PACKAGES", "EXTRA", "PRECISIONS", "DEVICE", "write", "load")
    return SimpleNamespace(**{name: getattr(module, name) for name in names} | changes)
