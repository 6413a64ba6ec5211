"""A run as `run` and `explain` are asked for it: the workload, its engine, the load, and how the result is shown."""

import functools
import inspect
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from servemark.cli._load_flags import requested
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_PRECISION, Engine, Json, Precision, Verbose, completed
from servemark.cli._own_models import own_files
from servemark.cli._report import Report
from servemark.cli._run_file import ConfigFile
from servemark.cli._trust import Trust
from servemark.documents.fields import Names
from servemark.documents.request import RunRequest

Command = Callable[..., None]


@dataclass(frozen=True)
class Asked:
    """One run, as the command line asks for it."""

    workload: str
    engine: str
    precision: str
    load: Namespace
    report: bool
    json: bool

    def request(self, **more: Any) -> RunRequest:
        """Make the request of it with `more`. Raises OptionError."""
        own = {"model": self.workload, "engine": self.engine, "precision": self.precision, **own_files()}
        return requested(self.load, **own, **more)


def takes_run(metavar: str, words: str) -> Callable[[Command], Command]:
    """Give a command of `asked: Asked` and `options` the parameters of a run; its first argument is described so."""

    def expand(command: Command) -> Command:
        @functools.wraps(command)
        def expanded(*, options: Any, config_file: Any, trust: bool, verbose: bool, **given: Any) -> None:
            # What reads the command line looks at the file, the trust and the amount of output itself.
            del config_file, trust, verbose
            command(Asked(**given), options=options)

        argument = typer.Argument(metavar=metavar, help=words, autocompletion=completed)

        def parameters(
            workload: Annotated[str, argument, Names.NOTHING],
            engine: Engine = DEFAULT_ENGINE,
            precision: Precision = DEFAULT_PRECISION,
            *,
            options: Any,
            load: Namespace,
            config_file: ConfigFile = None,
            trust: Trust = False,
            report: Report = False,
            json: Json = False,
            verbose: Verbose = False,
        ) -> None: ...

        result: Any = expanded
        result.__signature__ = inspect.signature(parameters)
        return expanded

    return expand
