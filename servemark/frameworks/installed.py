"""Packages that export or serve, of which the generator-only install has none."""

import importlib.util

EXPORT_OR_SERVE = ("torch", "onnx", "onnxruntime", "pytriton")


def serves_here() -> bool:
    """Return True if anything is installed that exports or serves models."""
    return any(importlib.util.find_spec(name) is not None for name in EXPORT_OR_SERVE)
