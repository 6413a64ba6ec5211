"""`servemark show`: a saved result again, as it was shown at its end."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._options import Json, Verbose
from servemark.paths import found
from servemark.results import directory
from servemark.results.saved import file_of, read_saved
from servemark.views.render import terminal


def show(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result directory, or its JSON file.", parser=found)
    ],
    json: Json = False,
    verbose: Verbose = False,  # noqa: ARG001 - its callback says so to the report
) -> None:
    """Show the saved result of any command again.

    The commands are run, explain, compare, tune, suite, mlperf, quality, calibrate, kernels, profile, characterise and
    synthesise.

    Example: servemark show results/latest -v
    """
    file = file_of(result)
    if json:
        directory.print_json(directory.read(file))
        return
    terminal.show(read_saved(result))


app = one_command(show)
