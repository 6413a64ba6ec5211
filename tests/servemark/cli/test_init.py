"""`servemark init`: what it writes can be used as it is."""

import ast
from pathlib import Path

import pytest

from servemark.cli import build
from servemark.cli._run_file import RunFile, parameters
from tests.support.command_line import BAD_INPUT, Servemark

KNOWN = parameters(build().commands["run"])


def test_a_start_is_written(servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = servemark("init", "ranking")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["wrote run.yaml", "wrote locustfile.py"]
    file = RunFile.read(Path("run.yaml"), KNOWN)
    assert file.values == {"workload": "ranking", "request-rate": "100", "slo": ["p99:10"], "duration": "15"}
    tree = ast.parse(Path("locustfile.py").read_text())
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["User"]
    assert 'own = get("ranking")' in Path("locustfile.py").read_text()


def test_every_other_option_stands_there_as_a_comment(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    servemark("init", "ranking")
    lines = [line.removeprefix("# ") for line in Path("run.yaml").read_text().splitlines()]
    keys = [line.partition(":")[0] for line in lines]
    assert all(keys.count(name) == 1 for name in KNOWN)
    assert "batch-size: 1" in lines
    assert "warmup: auto" in lines


def test_what_is_there_is_kept(servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("mine")
    code, _, err = servemark("init", "ranking")
    assert code == BAD_INPUT
    assert "run.yaml would be replaced" in err
    assert not Path("locustfile.py").exists()
    assert servemark("init", "ranking", "--force").code == 0
    assert Path("run.yaml").read_text() != "mine"


def test_an_unknown_workload(servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert servemark("init", "nothing").code == BAD_INPUT
    assert list(tmp_path.iterdir()) == []
