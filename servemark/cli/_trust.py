"""Options that a stranger's file sets: those that name a program, a path or a host are shown, and wait for a yes."""

import inspect
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from servemark import interrupts
from servemark.documents.fields import Names
from servemark.errors import OptionError
from servemark.output import stderr

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Take the programs, paths and hosts that a result, or another's --config, names; else they are asked for.",
    ),
]


@dataclass(frozen=True)
class Declared:
    """The kind of thing that a parameter says it names, and the values of it that name nothing."""

    names: Names
    plain: re.Pattern[str]

    def asked(self, value: Any) -> bool:
        """Return True if this value from a foreign file needs a yes."""
        values = value if isinstance(value, list | tuple) else [value]
        return self.names is not Names.NOTHING and not all(self.plain.fullmatch(str(each)) for each in values)


NOT_DECLARED = Declared(Names.PROGRAM, re.compile(""))


def declared(command: Any) -> dict[str, Declared]:
    """Return what each parameter of a command names, by the parameter's own name."""
    found: dict[str, Declared] = {}
    for name, parameter in inspect.signature(command.callback).parameters.items():
        metadata = getattr(parameter.annotation, "__metadata__", ())
        plain = next((each for each in metadata if isinstance(each, re.Pattern)), re.compile(""))
        if names := next((each for each in metadata if isinstance(each, Names)), None):
            found[name] = Declared(names, plain)
    return found


def is_own(path: Path) -> bool:
    """Return True if a file is the user's: in the working directory, of this user, and not writable for everybody."""
    status = path.stat()
    open_to_all = bool(status.st_mode & stat.S_IWOTH)
    inside = path.resolve().is_relative_to(Path.cwd().resolve())
    return inside and status.st_uid == os.geteuid() and not open_to_all


def require_trust(context: Any) -> None:
    """Show what a stranger's file names, and ask whether to take it. Raises OptionError where nobody says yes.

    `context.obj` is that file; it is None where the defaults are the user's own.
    """
    if context.obj is None or context.params["trust"]:
        return
    named = dict(_named(context))
    if not named:
        return
    lines = [f"  {kind}: {option} {value}" for option, (kind, value) in named.items()]
    said = "\n".join([f"{context.obj} names what this command would run, open or ask:", *lines])
    fix = f"read them, then add --trust; or give your own, like {next(iter(named))} VALUE"
    if not _at_a_terminal():
        raise OptionError(said, fix=fix)
    stderr.print(said)
    with interrupts.anywhere():
        if not typer.confirm("Take them?", err=True):
            raise OptionError("nothing was run", fix=fix)


def _at_a_terminal() -> bool:
    """Return True if somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _named(context: Any) -> Iterator[tuple[str, tuple[Names, str]]]:
    """The options that the file sets and that name something, as they are spelled."""
    declarations = declared(context.command)
    for parameter in context.command.params:
        value, said = context.params.get(parameter.name), declarations.get(parameter.name, NOT_DECLARED)
        source = context.get_parameter_source(parameter.name)
        if source is None or source.name != "DEFAULT_MAP" or value in (None, parameter.default):
            continue
        if said.asked(value):
            yield max(parameter.opts, key=len), (said.names, _shown(value))


def _shown(value: Any) -> str:
    """Return a value in quotes that show where it begins and ends; several values joined."""
    return ", ".join(repr(str(each)) for each in (value if isinstance(value, list | tuple) else [value]))
