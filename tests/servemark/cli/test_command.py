"""A command as its group imports it."""

import re
import subprocess
import sys
from typing import Any

import pytest

from servemark.cli import COMMANDS, SUBJECTS, build
from servemark.documents.flags import FIRST, OPTIONS, SECTIONS


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


def test_commands_are_listed_by_what_they_are_for() -> None:
    words = build().get_help(build().make_context("servemark", [], resilient_parsing=True))
    sections = re.findall(r"^(\w+):$", words, re.MULTILINE)
    assert sections[1:] == [*SUBJECTS]
    assert len(COMMANDS) == sum(map(len, SUBJECTS.values()))


def help_of(name: str) -> dict[str, str]:
    """The sections of a command's help."""
    command: Any = build().commands[name]
    words = command.get_help(command.make_context(name, [], resilient_parsing=True))
    return dict(re.findall(r"^(\w[\w ]+):\n(.*?)(?=^\w|\Z)", words, re.MULTILINE | re.DOTALL))


def test_the_help_of_a_run_begins_with_what_most_runs_use() -> None:
    sections = help_of("run")
    assert [*sections][:2] == ["Arguments", "Most used"]
    assert {*re.findall(r"(--[\w-]+) ", sections["Most used"])} == {OPTIONS[name].spelled for name in FIRST}


def test_every_option_stands_once_in_the_section_of_its_subject() -> None:
    sections = help_of("run")
    for name, option in OPTIONS.items():
        if "run" in option.flag.commands:
            listed = re.compile(rf"^  (?:-\w, )?{option.spelled}(?: |$)", re.MULTILINE)
            having = [title for title, words in sections.items() if listed.search(words)]
            assert having == ["Most used" if name in FIRST else SECTIONS[option.group]], name
