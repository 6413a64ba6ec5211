"""Options that a stranger's file sets: those that name a program, a path or a host are shown, and wait for a yes."""

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from servemark import interrupts
from servemark.documents.flags import Option
from servemark.errors import OptionError
from servemark.output import stderr


def is_own(path: Path) -> bool:
    """Return True if a file is the user's: in the working directory, of this user, and not writable for everybody."""
    status = path.stat()
    open_to_all = bool(status.st_mode & stat.S_IWOTH)
    inside = path.resolve().is_relative_to(Path.cwd().resolve())
    return inside and status.st_uid == os.geteuid() and not open_to_all


def require_trust(file: Path, named: Sequence[tuple[Option, Any]]) -> None:
    """Show what a stranger's file names, and ask whether to take it. Raises OptionError where nobody says yes."""
    if not named:
        return
    lines = [f"  {option.names}: {option.spelled} {_shown(value)}" for option, value in named]
    said = "\n".join([f"{file} names what this command would run, open or ask:", *lines])
    fix = f"read them, then add --trust; or give your own, like {named[0][0].spelled} VALUE"
    if not _at_a_terminal():
        raise OptionError(said, fix=fix)
    stderr.print(said)
    with interrupts.anywhere():
        if not click.confirm("Take them?", err=True):
            raise OptionError("nothing was run", fix=fix)


def _at_a_terminal() -> bool:
    """Return True if somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _shown(value: Any) -> str:
    """Return a value in quotes that show where it begins and ends; several values joined."""
    return ", ".join(repr(str(each)) for each in (value if isinstance(value, list | tuple) else [value]))
