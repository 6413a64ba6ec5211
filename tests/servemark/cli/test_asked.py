"""A run as `run` and `explain` are asked for it: both have the user's own files in their request, for a rerun."""

import os
from argparse import Namespace
from pathlib import Path

import pytest

from servemark.cli._asked import Asked
from servemark.cli._own_models import own_files
from servemark.workload.imported import MODELS
from servemark.workload.registry import WORKLOADS


@pytest.mark.parametrize("explain", [False, True])
def test_own_files_are_in_the_request(explain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    monkeypatch.setenv(WORKLOADS, os.pathsep.join(files))
    monkeypatch.setenv(MODELS, str(tmp_path))
    asked = Asked("ranking", "onnxruntime", "fp32", Namespace(request_rate="5"), report=False, json=False)
    request = asked.request(explain=explain)
    assert [*request.workload_files] == files
    assert request.imports_dir == str(tmp_path)
    assert request.live.explain == explain


def test_a_folder_of_models_that_is_not_there_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS, str(tmp_path / "none"))
    assert own_files()["imports_dir"] == ""
