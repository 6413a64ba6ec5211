"""Traces from an NVIDIA H200: one warm run of ResNet-50 at batch 8 in PyTorch, and two in ONNX Runtime.

Only what is read of them was kept: of PyTorch's operators within others those of the first six alone.
"""

import gzip
import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "servemark" / "profiling" / "traces"


def of_torch() -> dict[str, Any]:
    """The trace of torch.profiler 2.11."""
    found: dict[str, Any] = _read("torch_resnet50_h200.json.gz")
    return found


def of_onnxruntime() -> list[dict[str, Any]]:
    """The profile of a session of onnxruntime-gpu 1.31.1 on its CUDA provider."""
    found: list[dict[str, Any]] = _read("onnxruntime_resnet50_h200.json.gz")
    return found


def _read(name: str) -> Any:
    return json.loads(gzip.decompress((_FOLDER / name).read_bytes()))
