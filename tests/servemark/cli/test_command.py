"""A command as its group imports it."""

import subprocess
import sys

import pytest

from servemark.cli import COMMANDS, build


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_to_its_name(name: str) -> None:
    command = build().commands[name]
    assert command.name == name
    assert command.help


def test_the_list_of_commands_imports_none() -> None:
    code = "import sys; from servemark.cli import build; build()(['-h'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert not {"numpy", "loadgen", "pydantic", "servemark.cli.run"} & set(done.stdout.split())
