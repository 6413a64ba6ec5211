"""Exports that tests share, and exporters bent for a test."""

import fcntl
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import get_protocol_members

import exporters
from exporters.pipeline import export
from exporters.pipeline.registry import Exporter
from servemark import workload
from servemark.repository.entry import Entry
from servemark.workload import Arrays

FROM_TORCH = ("onnxruntime", "pytorch")
"""The engines whose artifacts are written from the PyTorch module; the others read the ONNX file."""


class Exports:
    """Exports each workload once, (name, engine) -> its entry, which tests only read; `said` holds its warnings."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.said: dict[tuple[str, str], list[str]] = {}

    def __call__(self, name: str, engine: str) -> Entry:
        if (name, engine) not in self.said:
            self.repository.mkdir(parents=True, exist_ok=True)
            lock = self.repository.with_name(f"{name}.lock")
            with lock.open("w") as file, warnings.catch_warnings(record=True) as said:
                fcntl.flock(file, fcntl.LOCK_EX)  # another process may be making the same one
                exporters.export(workload.get(name), engine, self.repository)
            self.said[name, engine] = [str(warning.message) for warning in said]
        return Entry(self.repository, name, engine)


def run_artifact(entry: Entry, inputs: Arrays) -> Arrays:
    """Run an artifact with nothing of servemark's exporters in between."""
    if entry.engine == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(entry.version / "model.onnx", providers=["CPUExecutionProvider"])
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(inputs)), strict=True))
    import torch

    program = torch.export.load(entry.version / "model.pt2")
    with torch.inference_mode():
        answer: Any = program.module()(*(torch.from_numpy(array) for array in inputs.values()))
    answer = answer if isinstance(answer, tuple) else (answer,)
    names = [tensor.name for tensor in workload.get(entry.workload).outputs]
    return {name: tensor.numpy() for name, tensor in zip(names, answer, strict=True)}


def variant(module: Exporter, **changes: Any) -> Any:
    """The module with some of its names changed."""
    return SimpleNamespace(**{name: getattr(module, name) for name in get_protocol_members(Exporter)} | changes)


def exports_by(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let every export be this module's, whatever engine is asked for."""
    monkeypatch.setattr(export, "exporter", lambda _: module)
