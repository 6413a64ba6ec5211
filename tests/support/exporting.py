"""Exports that tests share, and exporters bent for a test."""

import fcntl
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from typing_extensions import get_protocol_members

import exporters
from exporters.pipeline.registry import Exporter
from servemark import workload
from servemark.repository.entry import Entry

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


def variant(module: Exporter, **changes: Any) -> Any:
    """The module with some of its names changed."""
    return SimpleNamespace(**{name: getattr(module, name) for name in get_protocol_members(Exporter)} | changes)
