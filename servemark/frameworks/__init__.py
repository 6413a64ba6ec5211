"""Frameworks: which are installed, how each is imported, what exporters and engines share of it. Imports no stage."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version

EXPORT_OR_SERVE = ("torch", "onnx", "onnxruntime", "pytriton")
DISTRIBUTIONS = {
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "tensorrt_rtx_bindings": ("tensorrt-rtx-cu13-bindings",),
}
"""Package -> the distributions of it, the one for GPUs first: where both are installed its files lie on top."""
OPENVINO_PRECISION = ["servemark", "inference_precision"]
"""Place in OpenVINO's file that names what the model is to be computed in, because the representation itself has no
bf16. The exporter writes it, and it is read when the model is compiled."""


def serves_here() -> bool:
    """Return True if anything is installed that exports or serves models; the generator-only install has none."""
    return any(importlib.util.find_spec(name) is not None for name in EXPORT_OR_SERVE)


def distribution_of(package: str) -> tuple[str, str] | None:
    """Find the distribution that brings a package, for GPUs or for CPUs: its name and version. None: not installed."""
    for name in DISTRIBUTIONS.get(package, (package,)):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return None
