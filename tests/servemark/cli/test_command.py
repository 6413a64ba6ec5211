"""A command as its group imports it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from servemark.cli import COMMANDS, SUBJECTS, build
from servemark.documents.flags import FIRST, OPTIONS
from servemark.errors import OptionError


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


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, and those below one."""
    for name, command in build().commands.items():
        yield name, command
        yield from ((f"{name} {part}", below) for part, below in getattr(command, "commands", {}).items())


EVERY = pytest.mark.parametrize("command", [pytest.param(command, id=name) for name, command in commands()])
NUMBERS = {"S": ("90s", 90), "PERCENT": ("10%", 10), "N": ("2k", 2000), "R": ("1.5k", 1500), "PORT": ("80", 80)}
"""Metavar of an option -> a value, with its unit where it has one, and the number that it is read as."""


def help_of(command: Any) -> dict[str, str]:
    """The sections of a command's help."""
    words = command.get_help(command.make_context(command.name, [], resilient_parsing=True))
    return dict(re.findall(r"^(\w[\w ]+):\n(.*?)(?=^\w|\Z)", words, re.MULTILINE | re.DOTALL))


def test_the_help_of_a_run_begins_with_what_most_runs_use() -> None:
    sections = help_of(build().commands["run"])
    assert [*sections][:2] == ["Arguments", "Most used"]
    assert {*re.findall(r"(--[\w-]+) ", sections["Most used"])} == {OPTIONS[name].spelled for name in FIRST}


@EVERY
def test_an_option_stands_once_in_the_section_of_its_subject(command: Any) -> None:
    sections = help_of(command)
    for option in command.options.values():
        listed = re.compile(rf"^  (?:-\w, )?{re.escape(option.spelled)}(?:,| |$)", re.MULTILINE)
        having = [title for title, words in sections.items() if listed.search(words)]
        expected = [] if option.flag.hidden else ["Arguments" if option.flag.positional else option.section]
        assert having == expected, option.name


@EVERY
def test_an_option_reads_what_it_writes_and_refuses_what_is_not_of_its_kind(command: Any) -> None:
    for option in command.options.values():
        usual = command.kind.USUAL.get(option.name, option.value)
        if isinstance(usual, str) and usual:
            assert option.write(option.read(usual)) == usual
        choices = option.kind.choices
        assert [option.write(option.read(word)) for word in choices] == [*choices]
        if choices or option.metavar in NUMBERS:
            words = "is unknown" if choices else "is not a"
            with pytest.raises(OptionError, match=f"{option.spelled} 'nothing' {words}") as raised:
                option.read("nothing")
            assert raised.value.fix
        if option.metavar in NUMBERS and not choices:
            text, number = NUMBERS[option.metavar]
            assert option.read(text) in (number, (number, number))
        for bound, step, words in (("ge", -1, "must be at least"), ("gt", 0, "must be above"), ("le", 1, "is above")):
            if bound in option.kind.bounds and not option.flag.read:
                with pytest.raises(OptionError, match=rf"^{option.spelled} \S+ {words} \d"):
                    option.read(f"{option.kind.bounds[bound] + step}")


@EVERY
def test_what_is_typed_is_in_the_document(command: Any) -> None:
    """Every option at once, each with its default or its first choice."""
    switches = [each for each in command.options.values() if each.switch]
    words = [each for each in command.options.values() if not each.switch and not each.flag.positional]
    typed = {each.name: each.kind.choices[0] if each.required else each.value for each in words}
    line = [f"{each.spelled}={typed[each.name]}" for each in words if typed[each.name]]
    places = ["x" for each in command.options.values() if each.flag.positional]
    with command.make_context(command.name, [*line, *(each.spelled for each in switches), *places]) as context:
        made = command.document(context)
    for option in command.own.values():
        value = option.write(getattr(made, option.field))
        expected = True if option.switch else typed.get(option.name, ["x"] if option.kind.many else "x")
        assert value == expected, option.name
    assert all(made.given[each.name] is True for each in switches if each.name in command.taken)
    assert made.given.keys() == command.taken.keys()
