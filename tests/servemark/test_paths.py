"""Folders, and paths as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servemark import paths
from servemark.paths import HOME_VARIABLE, found, shown


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
    code = "from servemark.paths import *; print(MODEL_REPOSITORY, DATA_ROOT, RESULTS, IMPORTS, BASELINES)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, HOME_VARIABLE: home},
        capture_output=True,
        text=True,
        check=True,
    )
    names = ("model_repo", "data", "results", "servemark_models", "baselines")
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
