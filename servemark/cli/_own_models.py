"""`--workloads` on every command that takes a workload: for this command and all processes that it starts."""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from servemark.workload.registry import WORKLOADS

Command = Callable[..., None]
Workloads = Annotated[
    list[Path] | None,
    typer.Option(
        "--workloads",
        metavar="PATH",
        help="Python file of a workload of your own, or a folder of them; may be given again.",
    ),
]


def takes_own_models(command: Command) -> Command:
    """Give a command the flag that names workloads of the user's own."""

    @functools.wraps(command)
    def expanded(*, workloads_of_own: list[Path] | None = None, **given: Any) -> None:
        before = os.environ.get(WORKLOADS)
        # Children may run in another folder.
        places = [str(place.absolute()) for place in workloads_of_own or ()]
        try:
            if places:
                os.environ[WORKLOADS] = os.pathsep.join([*places, *filter(None, [before])])
            command(**given)
        finally:
            os.environ.pop(WORKLOADS, None)
            if before is not None:
                os.environ[WORKLOADS] = before

    signature = inspect.signature(command)
    more = inspect.Parameter("workloads_of_own", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Workloads)
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    result: Any = expanded
    result.__signature__ = signature.replace(parameters=[*own, more])
    return expanded
