"""`servemark init`: what it writes can be used as it is."""

import ast
from pathlib import Path

import msgspec
import pytest

from servemark.documents.files import read_request
from servemark.documents.load import ConstantRate
from servemark.documents.request import GROUPS, Objectives, RunRequest
from tests.support.command_line import BAD_INPUT, Servemark


@pytest.fixture(autouse=True)
def in_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_start_is_written(servemark: Servemark) -> None:
    code, out, err = servemark("init", "ranking")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["wrote run.yaml", "wrote locustfile.py"]
    load = ConstantRate(rate=100, duration_s=20)
    assert read_request(Path("run.yaml")).request == RunRequest(
        workload="ranking", load=load, objectives=Objectives(slo="p99:10")
    )
    tree = ast.parse(Path("locustfile.py").read_text())
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["User"]
    assert 'own = get("ranking")' in Path("locustfile.py").read_text()


@pytest.mark.parametrize(("serves", "named"), [(True, "locust --serve"), (False, "--url http://SERVER:8000")])
def test_the_next_command_is_one_that_this_install_has(
    serves: bool, named: str, servemark: Servemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servemark.cli.init.serves_here", lambda: serves)
    assert named in servemark("init", "ranking").out


def test_every_other_option_stands_there_as_a_comment(servemark: Servemark) -> None:
    servemark("init", "ranking")
    lines = [line.strip().removeprefix("# ") for line in Path("run.yaml").read_text().splitlines()]
    keys = [line.partition(":")[0] for line in lines]
    kinds: list[type[msgspec.Struct]] = [*GROUPS.values(), ConstantRate]
    names = [field.name for kind in kinds for field in msgspec.structs.fields(kind)]
    assert all(name in keys for name in names)
    assert "batch_size: 1" in lines
    assert "warmup: auto" in lines


def test_what_is_there_is_kept(servemark: Servemark) -> None:
    Path("run.yaml").write_text("mine")
    code, _, err = servemark("init", "ranking")
    assert code == BAD_INPUT
    assert "run.yaml would be replaced" in err
    assert not Path("locustfile.py").exists()
    assert servemark("init", "ranking", "--force").code == 0
    assert Path("run.yaml").read_text() != "mine"


def test_an_unknown_workload(servemark: Servemark, tmp_path: Path) -> None:
    assert servemark("init", "nothing").code == BAD_INPUT
    assert list(tmp_path.iterdir()) == []
