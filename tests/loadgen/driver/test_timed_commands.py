"""Commands beside a load: each is started at its time, none outlives the run."""

import os
from pathlib import Path

import psutil
import pytest

from loadgen.driver.timed_commands import TimedCommands
from servemark.documents.live import TimedCommand
from servemark.errors import OptionError
from tests.support.locust_run import until


def test_a_command_is_started_when_it_is_due_and_says_how_it_ended(tmp_path: Path) -> None:
    file, before = tmp_path / "done", _children()
    commands = TimedCommands([TimedCommand(2.0, f"sh -c 'echo it was done; touch {file}; exit 3'")])
    commands.tick(1.9)
    assert not file.exists()
    commands.tick(2.1)
    until(file.exists, "the command to run")
    until(lambda: _children() <= before, "it to end")
    commands.finish()
    [ran] = commands.ran
    assert (ran["at_s"], ran["exit_code"], ran["said"]) == (2.1, 3, "it was done")


def test_what_still_runs_at_the_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    commands = TimedCommands([TimedCommand(0.0, f"sh -c 'sleep 60 & echo $! > {file}; wait'")])
    commands.tick(0.0)
    until(lambda: file.exists() and file.read_text().strip() != "", "the command to run")
    commands.finish()
    assert commands.ran[0]["exit_code"] is None
    until(lambda: not psutil.pid_exists(int(file.read_text())), "its child to end")


def test_what_was_never_due_is_not_run_and_leaves_nothing(tmp_path: Path) -> None:
    file, before = tmp_path / "done", _children()
    commands = TimedCommands([TimedCommand(9.0, f"touch {file}")])
    commands.tick(1.0)
    commands.finish()
    assert (commands.ran, file.exists()) == ([], False)
    assert _children() <= before


def test_a_program_that_is_not_there_is_told_before_the_run() -> None:
    before = _children()
    with pytest.raises(OptionError, match="no program 'no-such-program'"):
        TimedCommands([TimedCommand(0.0, "true"), TimedCommand(1.0, "no-such-program --now")])
    assert _children() <= before


def _children() -> set[int]:
    """Children of this process that run, the zombies left out."""
    found = psutil.Process(os.getpid()).children()
    return {child.pid for child in found if child.is_running() and child.status() != psutil.STATUS_ZOMBIE}
