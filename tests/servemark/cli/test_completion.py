"""Completion in the user's shell: the script that is shown is the one that is installed, and it is read once."""

from pathlib import Path

import pytest

from servemark.cli._completion import PLACES
from tests.support.command_line import BAD_INPUT, Servemark


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
