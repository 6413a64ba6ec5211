"""A run's request from a file, or from an earlier run: it gives a command its defaults, and errors name its line."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from servemark.cli._options import MayStandBare
from servemark.cli._trust import is_own, require_trust
from servemark.documents.files import RequestFile, read_request
from servemark.documents.flags import KINDS, OPTIONS, foreign, given_options
from servemark.documents.request import RunRequest
from servemark.errors import InputDataError, OptionError, ServemarkError

_META = "servemark.run_file"
_PARAMETERS = {"model": "workload"}
"""Flags of a request that the command has as parameters of another name."""
RANGES = {"concurrency_range", "request_rate_range"}


def defaults(request: RunRequest) -> dict[str, Any]:
    """A request as the defaults of the command's parameters."""
    return {
        _PARAMETERS.get(name, name): [value] if OPTIONS[name].flag.repeatable and isinstance(value, str) else value
        for name, value in given_options(request).items()
    }


def is_text(value: str) -> bool:
    """Tell whether a command line can hold it: no NUL, no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Make the request of a file the command's defaults, before its other options are read."""
    if path is not None:
        file = read_request(path)
        context.default_map = defaults(file.request)
        context.obj = None if is_own(path) else path
        context.meta[_META] = file
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=_read,
        help="The request of a run as YAML; `servemark init` writes one. Command-line options override it.",
    ),
]


class TakesDefaults(MayStandBare):
    """A command whose options may come from a file, or from an earlier run: errors say in which line.

    A load of the command line takes the place of another kind of load there.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, with the file's options behind it."""
        with _placed(ctx):
            rest = super().parse_args(ctx, args)
        typed = [name for name in (*KINDS, *RANGES) if _typed(ctx, name)]
        replaced = {name for each in typed for name in (*KINDS, *foreign(each.removesuffix("_range")))}
        for parameter in self.params:
            if parameter.name in replaced and not _typed(ctx, parameter.name):
                ctx.params[parameter.name] = parameter.default
        require_trust(ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _placed(ctx):
            return super().invoke(ctx)


def _typed(context: Any, name: str) -> bool:
    """Tell whether a parameter is from the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@contextmanager
def _placed(context: Any) -> Iterator[None]:
    """Say of an error that is about the file's field where this stands. Raises OptionError in its place."""
    try:
        yield
    except (OptionError, InputDataError, typer.TyperException) as error:
        words = error.what if isinstance(error, ServemarkError) else error.format_message()
        file: RequestFile | None = context.meta.get(_META)
        typed = frozenset(each.name for each in context.command.params if _typed(context, each.name))
        place = file.place_of(words, typed) if file else None
        if place is None or str(file.path if file else "") in words:
            raise
        raise OptionError(f"{place}: {words}", fix=getattr(error, "fix", None)) from error
