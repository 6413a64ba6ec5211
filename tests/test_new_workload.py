"""Adding a workload is adding one file: the worked example of CONTRIBUTING.md, executed."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import exporters
import servemark.models
from servemark.artifacts import Entry
from servemark.models import _registry
from servemark.paths import CHECKOUT


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    blocks = re.findall(r"^```python\n(.*?)^```", (CHECKOUT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "digits_mlp.py").write_text(blocks[0])
    monkeypatch.setattr(servemark.models, "__path__", [*servemark.models.__path__, str(tmp_path)])
    _registry.workloads.cache_clear()
    yield "digits_mlp"
    _registry.workloads.cache_clear()


def test_one_file_is_a_workload(example: str, tmp_path: Path) -> None:
    workload = servemark.models.get(example)
    assert example in servemark.models.names()
    model = workload.build()
    assert sum(p.numel() for p in model.parameters()) == workload.parameters == 238_510
    tiny = servemark.models.get(f"{example}_tiny")
    report = exporters.export(tiny, "onnxruntime", tmp_path / "repository")
    golden = Entry(tmp_path / "repository", tiny.name, "onnxruntime").read_golden()
    assert golden is not None
    assert np.unique(golden.outputs["logits"].argmax(axis=1)).size > 1
    assert report.manifest["parameters"] == tiny.parameters
