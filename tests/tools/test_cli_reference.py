"""The command-line reference: each option stands with its command, in words where they are not those of `run`."""

import click
import pytest

from servemark.cli import build
from tools.cli_reference import reference

COMMANDS = {name: command for name, command in build().commands.items() if not isinstance(command, click.Group)}
REFERENCE = reference()


def section(name: str) -> str:
    return REFERENCE.partition(f"\n## servemark {name}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_stands_with_its_command(name: str) -> None:
    shown = section(name)
    options = [each for each in COMMANDS[name].params if isinstance(each, click.Option) and not each.hidden]
    assert not [each.opts for each in options if not any(opt in shown for opt in each.opts)]


def test_an_option_with_another_default_is_explained_anew() -> None:
    assert "--duration S  " in section("compare")
    assert "--duration S  " not in section("explain")
    assert "As for run: --engine, " in section("explain")


def test_run_explains_all_of_its_own() -> None:
    assert "As for run" not in section("run")
