"""The command group itself: what it answers without a command, and what all flags have in common."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servemark.cli import OTHERS_FLAGS, PLACES, build
from servemark.paths import CHECKOUT
from tests.support.command_line import BAD_INPUT, Servemark

REQUEST_FLAGS = ["cancellation", "compression", "distribution", "log", "parameter", "rate", "rate-range", "timeout"]


def test_every_command_that_writes_a_result_offers_its_page() -> None:
    group: Any = build()
    flags = {name: {flag: each for each in own.params for flag in each.opts} for name, own in group.commands.items()}
    writing = {name for name, own in flags.items() if "--out" in own and own["--out"].metavar == "DIR"}
    assert {"run", "kernels", "quality"} <= writing
    assert [name for name in writing if "--report" not in flags[name]] == ["compare"]  # which writes it always


def test_other_tools_flags_are_answered_with_flags_that_are_there() -> None:
    group: Any = build()
    ours = {name for option in group.commands["run"].params for name in option.opts}
    assert set(OTHERS_FLAGS.values()) <= ours
    assert not OTHERS_FLAGS.keys() & ours


@pytest.mark.parametrize(("flag", "meant"), [("--rate", "--request-rate"), ("-c", "--concurrency")])
def test_what_users_of_other_tools_type(flag: str, meant: str, servemark: Servemark) -> None:
    code, _, err = servemark("run", "ranking", flag, "5")
    assert code == BAD_INPUT
    assert err.splitlines() == [f"servemark: No such option {flag!r}.", f"  fix: {meant} is what it is called here"]


def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"}
    command = [sys.executable, "-m", "servemark", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_short_form_of_version(servemark: Servemark) -> None:
    assert servemark("-V") == servemark("--version")
    assert servemark("-V").out.startswith("servemark ")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("re", ["rerun", "report"]),
        ("run --req", [f"--request-{flag}" for flag in REQUEST_FLAGS]),
        ("run resnet1", ["resnet152"]),
        ("quality vgg", ["vgg16", "vgg16_cifar"]),
        ("kernels --workload ran", ["ranking", "ranking_teacher"]),
        ("kernels --suite deepbench-d", ["deepbench-device"]),
    ],
)
def test_a_shell_completes_commands_options_and_names(
    servemark: Servemark, monkeypatch: pytest.MonkeyPatch, typed: str, completed: list[str]
) -> None:
    words = f"servemark {typed}"
    monkeypatch.setenv("_SERVEMARK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert {line.partition(",")[2] for line in servemark().out.split()} == set(completed)


@pytest.mark.parametrize("shell", PLACES)
def test_a_script_is_installed_where_the_shell_reads_it(
    shell: str, servemark: Servemark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    monkeypatch.setenv("HOME", str(tmp_path))
    script, start, line = PLACES[shell]
    if start:
        (tmp_path / start).write_text("mine\n")
    for _ in range(2):
        code, out, err = servemark("--install-completion")
        assert (code, err) == (0, "")
        assert out.startswith(f"{shell} completion installed in {tmp_path / script}\n")
    assert servemark("--show-completion").out == (tmp_path / script).read_text() + "\n"
    assert f"_SERVEMARK_COMPLETE={shell}_complete" in (tmp_path / script).read_text()
    if start:
        text = (tmp_path / start).read_text()
        assert text.startswith("mine\n")
        assert text.count(line.format(tmp_path / script)) == 1


def test_another_shell_is_refused(servemark: Servemark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    code, out, err = servemark("--show-completion")
    assert (code, out) == (BAD_INPUT, "")
    assert "there is no completion for the shell 'tcsh'" in err
    assert "there are bash, zsh, fish" in err
