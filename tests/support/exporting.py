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
from exporters.pipeline.registry import Exporter, exporter
from servemark import workload
from servemark.repository.entry import Entry
from servemark.workload import Arrays
from servers.engines import load_engine

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
        from tests.support.onnx_models import by_onnxruntime

        return by_onnxruntime(entry.version / "model.onnx", inputs)
    import torch

    program = torch.export.load(entry.version / "model.pt2")
    with torch.inference_mode():
        answer: Any = program.module()(*(torch.from_numpy(array) for array in inputs.values()))
    answer = answer if isinstance(answer, tuple) else (answer,)
    names = [tensor.name for tensor in workload.get(entry.workload).outputs]
    return {name: tensor.numpy() for name, tensor in zip(names, answer, strict=True)}


def loaded(entry: Entry, device: str = "cpu", **options: str) -> Any:
    """Load an artifact as a server does."""
    served = workload.get(entry.workload)
    return load_engine(
        entry.engine,
        entry.version / exporter(entry.engine).ARTIFACT,
        inputs=[tensor.name for tensor in served.inputs],
        outputs=[tensor.name for tensor in served.outputs],
        device=device,
        options=options,
    )


def variant(module: Exporter, **changes: Any) -> Any:
    """The module with some of its names changed."""
    return SimpleNamespace(**{name: getattr(module, name) for name in get_protocol_members(Exporter)} | changes)


def exports_by(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Let every export be this module's, whatever engine is asked for."""
    monkeypatch.setattr(export, "exporter", lambda _: module)
