"""A command as a shell has it, made from its document: its parameters and help, what a line asks for, and its run."""

import builtins
import contextlib
import importlib
import inspect
import itertools
import keyword
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from servemark import interrupts
from servemark.documents.commands import Command
from servemark.documents.files import RequestFile, read_request
from servemark.documents.flags import (
    KINDS,
    MOST_USED,
    OPTIONS,
    SECTIONS,
    Option,
    Value,
    foreign,
    given_options,
    made,
    options_in,
)
from servemark.documents.load import AUTO
from servemark.documents.request import RunRequest
from servemark.errors import InputDataError, OptionError
from servemark.output import ERRORS, EVERYTHING, SAYS, stderr

ARGUMENTS = "Arguments"


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


@dataclass(frozen=True)
class Source:
    """The origin of options that the command line does not give: a file, or an earlier run."""

    path: Path
    request: RunRequest
    own: bool = False
    """It is the user's, and nobody else writes it."""
    file: RequestFile | None = None

    @classmethod
    def of_file(cls, path: Path) -> "Source":
        """Read the file of `--config`. Raises OptionError."""
        file = read_request(path)
        return cls(path, file.request, is_own(path), file)

    def values(self, typed: Mapping[str, Value]) -> dict[str, Value]:
        """Return its options but those of another load than the one that the command line asks for."""
        kinds = [name.removesuffix("_range") for name in typed]
        replaced = {other for kind in kinds if kind in KINDS for other in (*KINDS, *foreign(kind))}
        return {name: value for name, value in given_options(self.request).items() if name not in {*replaced, *typed}}

    @contextlib.contextmanager
    def placed(self, typed: Mapping[str, Value]) -> Iterator[None]:
        """Say of an error that is about a field of the file in which line this stands. Raises OptionError instead."""
        try:
            yield
        except (OptionError, InputDataError) as error:
            place = self.file.place_of(error.what, frozenset(typed)) if self.file else None
            if place is None or str(self.path) in error.what:
                raise
            raise OptionError(f"{place}: {error.what}", fix=error.fix) from error


class DocumentCommand(click.Command):
    """A command with the options of its document, and those of a request that the document takes."""

    def __init__(self, kind: type[Command], body: Callable[[Any], int | None], **settings: Any) -> None:
        self.kind, self.body = kind, body
        self.own = options_in(kind)
        self.taken = {n: o for n, o in OPTIONS.items() if kind.TAKES & {*o.commands} and n not in self.own}
        self.options = {**self.own, **self.taken}
        super().__init__(
            params=[_parameter(each, kind.USUAL.get(name)) for name, each in self.options.items()],
            help=inspect.cleandoc(kind.__doc__ or ""),
            short_help=kind.SHORT or None,
            callback=self._called,
            context_settings={"ignore_unknown_options": kind.PASSES_ON},
            **settings,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a line. `--max-rate` may stand without bounds: a word that is not a number is the next argument."""
        spelled = [
            f"{arg}={AUTO}" if arg == "--max-rate" and "max_rate" in self.taken and not after[:1].isdigit() else arg
            for arg, after in itertools.pairwise([*args, ""])
        ]
        return super().parse_args(ctx, spelled)

    def _called(self, **_: Any) -> int | None:
        """Make the document of a line, and run the command; nothing where one below it is called."""
        context = click.get_current_context()
        if context.invoked_subcommand is not None:
            return None
        typed, source = self._typed(context), self._source(context)
        with source.placed(typed) if source else contextlib.nullcontext():
            return self.run(self.document(context))

    def document(self, ctx: click.Context) -> Any:
        """Make the document of a line, with the options of its source behind the line's. Raises OptionError."""
        typed, source = self._typed(ctx), self._source(ctx)
        values = {**self.kind.USUAL, **typed}
        if source:
            known = {name: value for name, value in source.values(typed).items() if name in self.options}
            if not (source.own or typed.get("trust")):
                asked = [(self.options[name], value) for name, value in known.items()]
                require_trust(source.path, [(option, value) for option, value in asked if option.asked(value)])
            values = {**self.kind.USUAL, **known, **typed}
        for parameter in self.params:
            option = self.options[str(parameter.name)]
            if option.required and not values.get(option.name):
                raise click.MissingParameter(ctx=ctx, param=parameter)
        own = {name: values[name] for name in self.own if name in values}
        given = {name: values.get(name, option.value) for name, option in self.taken.items()}
        return made(self.kind, own, given=given)

    def run(self, document: Any) -> int | None:
        """Run the command in an environment that all processes which it starts inherit."""
        with self.environment(document):
            return self.body(document)

    @contextlib.contextmanager
    def environment(self, document: Any) -> Iterator[None]:
        """Set the amount of output, and the places of the user's own workloads and models."""
        values = {}
        if getattr(document, "json", False) or getattr(document, "verbose", False):
            values[SAYS] = ERRORS if getattr(document, "json", False) else EVERYTHING
        if "imports_dir" in self.taken:
            from servemark.workload.registry import environment_of

            values |= environment_of(document.given)
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def _typed(self, ctx: click.Context) -> dict[str, Value]:
        """Return what the command line itself gives."""
        return {name: value for name, value in ctx.params.items() if name in self.options and value not in (None, ())}

    def _source(self, ctx: click.Context) -> Source | None:
        """Return the source of other options. Raises OptionError."""
        config = ctx.params.get("config")
        if config and ctx.obj is None:
            ctx.obj = Source.of_file(Path(config))
        found: Source | None = ctx.obj
        return found

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Leave the arguments to `format_options`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and the options by subject, those that most runs use first."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (ARGUMENTS, MOST_USED, *SECTIONS.values())}
        for parameter in self.get_params(ctx):
            option = self.options.get(str(parameter.name))
            title = ARGUMENTS if isinstance(parameter, click.Argument) else option.section if option else "Options"
            if words := parameter.get_help_record(ctx):
                sections[title].append(words)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


class DocumentGroup(DocumentCommand, click.Group):
    """A command with others below it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names in the order of the document."""
        return [*self.commands]


def command_of(name: str, room: str, subject: str) -> DocumentCommand:
    """Make a command; `room` is the module of its function, `subject` that of its document."""
    documents = importlib.import_module(f"servemark.documents.commands.{subject}")
    kind: type[Command] = getattr(documents, name.title())
    if not kind.PARTS:
        return DocumentCommand(kind, _body(room, name), name=name)
    parts = {part: DocumentCommand(below, _body(room, part), name=part) for part, below in kind.PARTS.items()}
    return DocumentGroup(
        kind, _body(room, name), name=name, commands=parts, no_args_is_help=False, invoke_without_command=kind.ALONE
    )


def _body(room: str, name: str) -> Callable[[Any], int | None]:
    """Return a function that imports a command when it is called: the imports of all take more than a second."""

    def run(document: Any) -> int | None:
        taken = keyword.iskeyword(name) or hasattr(builtins, name)
        found: Callable[[Any], int | None] = getattr(importlib.import_module(room), f"{name}{'_' * taken}")
        return found(document)

    return run


def _parameter(option: Option, usual: str | None) -> click.Parameter:
    """Make click's parameter of an option, which has a text, or None where it is not given."""
    flag = option.flag
    value = option.value if usual is None else usual
    shown = flag.shown_default or (value if isinstance(value, str) else "")
    words = "required" if option.required else f"default: {shown}" if shown else ""
    help_ = flag.help + (f"  [{words}]" if words else "")
    complete = _completed(flag.completion) if flag.completion else None
    settings: dict[str, Any] = {"help": help_, "default": None, "type": click.UNPROCESSED, "shell_complete": complete}
    if flag.positional:
        many = -1 if option.kind.many else 1
        return click.Argument([option.name], nargs=many, required=False, metavar=option.metavar, **settings)
    if option.switch:
        settings |= {"is_flag": True, "type": click.BOOL}
    else:
        settings |= {"multiple": option.repeatable, "metavar": option.metavar}
    return click.Option([option.name, option.spelled, *filter(None, [flag.short])], hidden=flag.hidden, **settings)


def _completed(what: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what a shell completes the beginning of a name with."""

    def found(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        if what == "suite":
            from kernels.suites import suites

            return [name for name in suites() if name.startswith(incomplete)]
        from servemark.workload import names

        return [name for name in names() if name.startswith(incomplete)]

    return found
