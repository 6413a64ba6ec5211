"""`--workload-file` and `--imports-dir` of every command that takes a workload, for all processes that it starts."""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from servemark.documents.fields import Names
from servemark.documents.flags import OPTIONS
from servemark.paths import IMPORTS
from servemark.workload.imported import MODELS
from servemark.workload.registry import WORKLOADS

Command = Callable[..., None]
Workloads = Annotated[
    list[Path] | None,
    typer.Option(
        "--workload-file",
        metavar="PATH",
        help=OPTIONS["workload_file"].flag.help,
    ),
    Names.PROGRAM,
]

Models = Annotated[
    Path | None,
    typer.Option("--imports-dir", metavar="DIR", help=f"{OPTIONS['imports_dir'].flag.help}  [default: {IMPORTS}]"),
    Names.PROGRAM,
]
"""Of a folder's models the files run in an engine, as far as that can be trusted."""


def takes_own_models(command: Command) -> Command:
    """Give a command the flags that name workloads and imported models of the user's own."""

    @functools.wraps(command)
    def expanded(*, workload_file: list[Path] | None = None, imports_dir: Path | None = None, **given: Any) -> None:
        # Children may run in another folder.
        places = [str(place.absolute()) for place in workload_file or ()]
        with (
            _set(WORKLOADS, os.pathsep.join([*places, *filter(None, [os.environ.get(WORKLOADS)])]) if places else None),
            _set(MODELS, str((imports_dir or Path(os.environ.get(MODELS) or IMPORTS)).absolute())),
        ):
            command(**given)

    signature = inspect.signature(command)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("workload_file", Workloads), ("imports_dir", Models))
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    result: Any = expanded
    result.__signature__ = signature.replace(parameters=[*own, *more])
    return expanded


def own_files() -> dict[str, Any]:
    """Return the places of the user's own workloads and models, which a rerun needs."""
    folder = os.environ.get(MODELS, "")
    workloads = [place for place in os.environ.get(WORKLOADS, "").split(os.pathsep) if place]
    return {"workload_file": workloads, "imports_dir": folder if folder and Path(folder).is_dir() else ""}


@contextlib.contextmanager
def _set(variable: str, value: str | None) -> Iterator[None]:
    """Set an environment variable, if there is a value, and set it back."""
    before = os.environ.get(variable)
    if value is not None:
        os.environ[variable] = value
    try:
        yield
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before
