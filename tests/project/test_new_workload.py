"""Adding a workload is adding one file: the worked example of the guide, executed."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import exporters
from exporters.pipeline.provenance import made_by
from exporters.pipeline.registry import exporter
from servemark.errors import OptionError
from servemark.figures.registry import count_of
from servemark.paths import CHECKOUT, LOCUSTFILES
from servemark.repository.entry import Entry
from servemark.runs.locust_process import launch
from servemark.workload import get, names, registry
from tests.support.command_line import Servemark
from tests.support.load_config import config
from tests.support.locust_run import server_of

GUIDE = CHECKOUT / "docs/guides/own_model.md"


def _shown() -> list[str]:
    """The files that the guide shows whole: a workload and a locustfile."""
    section = GUIDE.read_text().partition("\n## A workload file\n")[2]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


_BESIDE = """
import servemark.models
servemark.models.__path__.append({folder!r})
"""
"""A plugin of pytest that puts a folder's workloads beside the others, before any test is collected."""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in a folder of the user's, with a locustfile of its own beside it."""
    file = tmp_path / "mine" / "digits_mlp.py"
    file.parent.mkdir()
    file.write_text(_shown()[0].replace('locustfile="classification"', 'locustfile="digits"'))
    (file.parent / "digits.py").write_text(_shown()[1])
    monkeypatch.setenv(registry.WORKLOADS, str(file.parent))
    return file


def test_one_file_outside_the_checkout_is_a_workload(example: Path, tmp_path: Path) -> None:
    workload = get("digits_mlp")
    assert "digits_mlp" in names()
    model = workload.build()
    assert sum(p.numel() for p in model.parameters()) == workload.parameters == 238_510
    tiny = get("digits_mlp_tiny")
    report = exporters.export(tiny, "onnxruntime", tmp_path / "repository")
    golden = Entry(tmp_path / "repository", tiny.name, "onnxruntime").read_golden()
    assert golden is not None
    assert np.unique(golden.outputs["logits"].argmax(axis=1)).size > 1
    assert report.manifest["parameters"] == tiny.parameters
    before = report.manifest["source_sha256"]
    assert made_by(tiny, exporter("onnxruntime"))["source_sha256"] == before
    example.write_text(example.read_text() + "# edited")
    assert made_by(tiny, exporter("onnxruntime"))["source_sha256"] == before, "a comment is no code"
    example.write_text(example.read_text().replace("std=0.1", "std=0.2"))
    assert made_by(tiny, exporter("onnxruntime"))["source_sha256"] != before


def test_a_command_s_processes_know_it_too(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servemark: Servemark
) -> None:
    """`run` starts Locust with the locustfile beside the workload; there it is found once more."""
    tiny = get("digits_mlp_tiny")
    monkeypatch.delenv(registry.WORKLOADS)
    load = ["--concurrency", "2", "--duration", "0.5", "--warmup", "0.1", "--out", str(tmp_path / "out"), "--json"]
    with server_of(tiny, delay_s=0.02) as server:
        done = servemark("run", tiny.name, "--workload-file", str(example), "-u", server.url, *load)
    result = json.loads(done.out)
    assert (result["workload"], result["task"]) == ("digits_mlp_tiny", "digit classification")
    assert count_of(result, "requests.answered") > 0
    assert os.environ.get(registry.WORKLOADS) is None


def test_one_may_have_no_tiny_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests over the registry take it: those that need a tiny variant are skipped, and say why."""
    text = _shown()[0]
    without = re.sub(r"\n    tiny=Variant\(.*\),", "", text)
    assert without != text
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits_mlp.py").write_text(without)
    (tmp_path / "plugin.py").write_text(_BESIDE.format(folder=str(tmp_path / "models")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(CHECKOUT)]))
    tests = ["tests/servemark/models/test_models.py", "tests/loadgen/kserve/test_http_messages.py"]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # Locust's takes a second
    flags = ["-p", "plugin", "-p", "pytest_timeout", "-q", "-rs", "-k", "digits_mlp"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags, *tests], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "digits_mlp declares no tiny variant" in done.stdout
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout)


def test_the_locustfile_shown_is_one() -> None:
    assert _shown()[1] == (LOCUSTFILES / "ranking.py").read_text()


def test_a_task_without_its_locustfile_is_told(tmp_path: Path) -> None:
    complete = config()
    lacking = replace(complete, workload=replace(complete.workload, locustfile="nowhere"))
    with pytest.raises(OptionError, match=r"ranking_tiny is driven by .*nowhere\.py, which is not there") as error:
        launch(replace(lacking, result_dir=tmp_path))
    assert str(GUIDE.relative_to(CHECKOUT)) in str(error.value.fix)
