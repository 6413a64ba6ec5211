"""Folders, and paths as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servemark import paths
from servemark.paths import HOME_VARIABLE, found, resumed, shown
from servemark.results import directory
from servemark.results.schema.header import opening
from tests.support.command_line import Servemark
from tests.support.saved_documents import kernels, run


@pytest.mark.parametrize(
    ("path", "words"),
    [("{here}/results/a", "results/a"), ("results/a", "results/a"), ("{here}", "."), ("/elsewhere/b", "/elsewhere/b")],
)
def test_a_path_is_shown_as_it_can_be_typed(
    path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path(path.format(here=tmp_path))) == words


@pytest.mark.parametrize(("home", "where"), [("", ""), ("elsewhere", "{here}/elsewhere/")])
def test_every_folder_lies_below_the_home_or_the_working_directory(home: str, where: str, tmp_path: Path) -> None:
    code = (
        "from servemark.paths import *; from servemark.documents.commands.compare import Baseline;"
        "print(MODEL_REPOSITORY, DATA_ROOT, RESULTS, IMPORTS, BASELINES, Baseline().result)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, HOME_VARIABLE: home},
        capture_output=True,
        text=True,
        check=True,
    )
    names = ("model_repo", "data", "results", "servemark_models", "baselines", "results/latest")
    assert done.stdout.split() == [f"{where.format(here=tmp_path)}{name}" for name in names]


def test_a_result_is_found_here_first_and_then_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    (home / "results/a").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(paths, "HOME", home)
    assert found("results/a") == home / "results/a"
    assert found("results/none") == Path("results/none")
    (here / "results/a").mkdir(parents=True)
    assert found("results/a") == Path("results/a")
    (here / "results/latest").symlink_to("a")
    assert resumed("results/latest/") == Path("results/a")
    assert resumed("") is None


@pytest.mark.parametrize(
    "command",
    [
        "show {}",
        "report {} --format md",
        "rerun {} --print",
        "history {}",
        "compare {} {}",
        "compare kernels kernels",
        "explain {}",
    ],
)
def test_every_command_finds_a_result_at_home(
    servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    run(tmp_path / "home/results/a")
    (tmp_path / "home/kernels").mkdir()
    directory.write(tmp_path / "home/kernels", kernels(dict(opening())))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "HOME", tmp_path / "home")
    done = servemark(*command.format(*["results/a"] * 2).split())
    kept_nothing = "keeps nothing to explain" in done.err
    assert kept_nothing if command.startswith("explain") else done.code == 0, done.err
