"""The script of the guide on CI, at a desk, by programs that only note their calls."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from servemark.paths import CHECKOUT

BASH, GIT = str(shutil.which("bash")), str(shutil.which("git"))
SERVEMARK = """#!/bin/sh
echo "$@ in $PWD with $PYTHONPATH" >> "$CALLS"
case $1 in
  serve) exec sleep 60 ;;
  compare)
    until [ "$(grep -c '^serve' "$CALLS")" -eq 2 ]; do sleep 0.05; done # they start beside the script
    mkdir -p results/latest; echo answer > results/latest/comparison.md; exit "$ANSWER" ;;
esac
"""


def _programs(folder: Path) -> Path:
    folder.mkdir()
    for name, text in (("servemark", SERVEMARK), ("curl", "#!/bin/sh\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("answer", [0, 2, 5])
def test_the_gate_compares_both_states_and_cleans_up(answer: int, tmp_path: Path) -> None:
    page = (CHECKOUT / "docs/guides/in_ci.md").read_text()
    [script] = re.findall(r"```sh\n(#!.*?)```", page, re.DOTALL)
    repository, calls = tmp_path / "repository", tmp_path / "calls"
    repository.mkdir()
    (repository / "gate.sh").write_text(script)
    git = [GIT, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    given = {name: value for name, value in os.environ.items() if name != "SERVEMARK_HOME"}
    given |= {"PATH": f"{_programs(tmp_path / 'bin')}:{os.environ['PATH']}", "CALLS": str(calls), "BASE": "HEAD"}
    given |= {"ANSWER": str(answer), "TMPDIR": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    done = subprocess.run(
        [BASH, "gate.sh"], cwd=repository, env=given, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == answer, done.stderr
    for verb in ("export", "serve"):
        folders = [line.split(" in ")[1] for line in calls.read_text().splitlines() if line.startswith(verb)]
        assert all(code == folder for folder, code in (each.split(" with ") for each in folders))
        assert sorted(Path(each).name for each in folders) == ["base", "repository"]
    assert "--urls base=http://127.0.0.1:8100,change=http://127.0.0.1:8200" in calls.read_text()
    assert (tmp_path / "summary").read_text() == "answer\n"
    assert ("::warning::undecided" in done.stdout) is (answer == 2)
    worktrees = subprocess.run([GIT, "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(worktrees.stdout.splitlines()) == 1
