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
  export) exit "${EXPORTED:-0}" ;;
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


def _gate(tmp_path: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the guide's script in a repository of its own, which has no worktree left afterwards."""
    page = (CHECKOUT / "docs/guides/comparing.md").read_text()
    [script] = re.findall(r"```sh\n(#!.*?)```", page, re.DOTALL)
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "gate.sh").write_text(script)
    git = [GIT, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    around = {name: value for name, value in os.environ.items() if name != "SERVEMARK_HOME"}
    around |= {"PATH": f"{_programs(tmp_path / 'bin')}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls")}
    around |= {"BASE": "HEAD", "TMPDIR": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), **given}
    done = subprocess.run(
        [BASH, "gate.sh"], cwd=repository, env=around, capture_output=True, text=True, check=False, timeout=60
    )
    worktrees = subprocess.run([GIT, "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True)
    assert len(worktrees.stdout.splitlines()) == 1
    return done


@pytest.mark.parametrize(("answer", "said"), [(0, ""), (2, "::warning::undecided"), (5, ""), (99, "::error::nothing")])
def test_the_gate_compares_both_states_and_cleans_up(answer: int, said: str, tmp_path: Path) -> None:
    done, calls = _gate(tmp_path, ANSWER=str(answer)), (tmp_path / "calls").read_text()
    assert done.returncode == answer, done.stderr
    for verb in ("export", "serve"):
        folders = [line.split(" in ")[1] for line in calls.splitlines() if line.startswith(verb)]
        assert all(code == folder for folder, code in (each.split(" with ") for each in folders))
        assert sorted(Path(each).name for each in folders) == ["base", "repository"]
    assert "--urls base=http://127.0.0.1:8100,change=http://127.0.0.1:8200" in calls
    assert (tmp_path / "summary").read_text() == "answer\n"
    assert ("::" in done.stdout) is bool(said)
    assert said in done.stdout


def test_a_model_that_cannot_be_exported_ends_the_gate_with_its_code(tmp_path: Path) -> None:
    assert _gate(tmp_path, EXPORTED="3", ANSWER="0").returncode == 3
    assert "compare" not in (tmp_path / "calls").read_text()
