"""Options that several commands share; those of a load are read from its table of flags."""

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from servemark.cli._command import HelpBySubject
from servemark.documents.fields import Names
from servemark.documents.flags import OPTIONS, Option
from servemark.output import ERRORS, EVERYTHING, NOTES, SAYS
from servemark.paths import DATA_ROOT, HOME, MODEL_REPOSITORY
from servemark.quantities import at_least, whole
from servemark.repository import entry
from servemark.workload import names

Completion = Callable[[str], list[str]]
"""Returns the words that a shell completes the beginning of one to."""


def option(option: Option, completion: Completion | None = None) -> Any:
    """A flag of a document as typer takes it."""
    flag, spelled = option.flag, [option.spelled]
    if flag.short:
        spelled.insert(0, flag.short)
    below = f"  [default: {HOME / flag.default_below}]" if flag.default_below else ""
    shown = flag.shown_default or not below
    return typer.Option(
        *spelled,
        metavar=flag.metavar,
        help=flag.help + below,
        show_default=shown,
        autocompletion=completion,
        rich_help_panel=option.section if option.name in OPTIONS else None,
    )


def _say(how_much: str) -> Callable[[typer.Context, bool], bool]:
    """Return a callback that sets the amount of output of a command and its processes, until it ends."""

    def chosen(context: typer.Context, given: bool) -> bool:
        if given:
            before = os.environ.get(SAYS, NOTES)
            os.environ[SAYS] = how_much
            context.call_on_close(lambda: os.environ.update({SAYS: before}))
        return given

    return chosen


def quantity(flag: str, metavar: str, what: str, *, least: float, units: Mapping[str, str]) -> Any:
    """A command's own flag that takes a number with a unit, as those of a load do."""
    return typer.Option(flag, metavar=metavar, help=what, parser=lambda value: at_least(flag, value, least, units))


def count(flag: str, what: str, *short: str, least: int = 1) -> Any:
    """A command's own flag that takes a whole number of at least `least`."""
    return typer.Option(flag, *short, metavar="N", help=what, parser=lambda value: whole(flag, value, least))


def completed(incomplete: str) -> list[str]:
    """The workloads that a shell completes a word to."""
    return [name for name in names() if name.startswith(incomplete)]


WorkloadName = Annotated[
    str,
    typer.Argument(metavar="WORKLOAD", help="Workload; `servemark list` shows them.", autocompletion=completed),
    Names.NOTHING,
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=_say(ERRORS), help="Print one JSON document, and nothing else but errors."),
    Names.NOTHING,
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_say(EVERYTHING), help="Show every constraint and figure."),
    Names.NOTHING,
]
Engine = Annotated[str, option(OPTIONS["engine"]), Names.NOTHING]
Precision = Annotated[str, option(OPTIONS["precision"]), Names.NOTHING]
Repository = Annotated[Path, option(OPTIONS["model_repository"]), Names.PATH]
DataRoot = Annotated[Path, option(OPTIONS["data_root"]), Names.PATH]

DEFAULT_REPOSITORY = MODEL_REPOSITORY
DEFAULT_DATA_ROOT = DATA_ROOT
DEFAULT_ENGINE = entry.DEFAULT_ENGINE
DEFAULT_PRECISION = entry.FULL

BARE = "auto"


class MayStandBare(HelpBySubject):
    """A command whose `--max-rate` may stand without bounds: what is not a number is the next argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give the flag without bounds a value."""
        spelled = [
            f"{arg}={BARE}" if arg == "--max-rate" and not after[:1].isdigit() else arg
            for arg, after in itertools.pairwise([*args, ""])
        ]
        return super().parse_args(ctx, spelled)
