"""`servemark baseline`: keep a result under a name, for `servemark compare --baseline`."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._options import Json
from servemark.compare.saved import baselines
from servemark.output import note
from servemark.paths import BASELINES, found, shown
from servemark.results.directory import print_json


def baseline(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The baseline's name, like main.")] = "",
    result: Annotated[
        Path,
        typer.Argument(metavar="[RESULT]", help="A result directory, or a folder of repeats.", parser=found),
    ] = Path("results/latest"),
    force: Annotated[bool, typer.Option("--force", help="Replace a baseline of this name.")] = False,
    json: Json = False,
) -> None:
    """Keep a result as a baseline, as a copy below `baselines`. Without a NAME, list them.

    Example: servemark baseline main results/before && servemark compare results/after --baseline main --fail-on p99
    """
    if name:
        kept = baselines.save(name, result, replace=force)
        note(f"kept in {shown(kept)}; servemark compare RESULT --baseline {name} --fail-on regression")
    listed = {each: str(BASELINES / each) for each in ([name] if name else baselines.names())}
    if json:
        print_json({"baselines": listed})
    elif not name:
        typer.echo("\n".join(listed) if listed else "there is no baseline yet: servemark baseline NAME RESULT")


app = one_command(baseline)
