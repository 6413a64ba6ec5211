"""`servemark rerun`: the run that made a result once more, with its options."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from servemark.cli._command import one_command
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_PRECISION, DEFAULT_REPOSITORY
from servemark.cli._run_file import defaults, parameters, written
from servemark.errors import ResultError, parsing
from servemark.machine.environment import collect
from servemark.output import note
from servemark.regression.saved_runs import differing
from servemark.repository.entry import Entry
from servemark.results import directory
from servemark.results.saved import file_of
from servemark.results.schema.run import Result

PASSES_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What follows RESULT is for `run`."""


def rerun(
    context: typer.Context,
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result directory, or its result.json.")],
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the options as a file for `run --config`, and run nothing.")
    ] = False,
) -> None:
    """Run again what made a result. Options of `run` after RESULT come before the result's.

    Example: servemark rerun results/latest --duration 60
    """
    assert context.parent is not None
    run: Any = cast(Any, context.parent.command).commands["run"]
    known = parameters(run)
    file = file_of(result)
    document = directory.read_run(file)
    with parsing(file, ResultError, fix="name a whole result directory"):
        kept = dict(document["config"].get("options") or {})
        options = {name.replace("_", "-"): value for name, value in kept.items()}
    if not options:
        raise ResultError(f"{file} does not keep its options", fix=f"its command was: {' '.join(document['command'])}")
    if strange := sorted(options.keys() - known.keys()):
        raise ResultError(f"{file} has options that this version lacks: {', '.join(strange)}", fix="update servemark")
    if print_only:
        typer.echo(f"# servemark run --config FILE; {file} was made so\n{written(options)}", nl=False)
        return
    for difference in _differences(document, options):
        note(f"differs from {result}: {difference}")
    code = run.main(
        args=context.args, prog_name="servemark run", standalone_mode=False, default_map=defaults(options, known)
    )
    raise typer.Exit(int(code or 0))


def _differences(then: Result, options: dict[str, Any]) -> Iterator[str]:
    """What is not as it was: packages, machine and code, and the exported model where there is one here."""
    repository = Path(options.get("model-repository", DEFAULT_REPOSITORY))
    precision = options.get("precision", DEFAULT_PRECISION)
    entry = Entry(repository, options["workload"], options.get("engine", DEFAULT_ENGINE), precision)
    exported = (entry.read_manifest() or then).get("artifact_sha256")
    now = cast(Result, {**then, "environment": collect(), "artifact_sha256": exported})
    for each in differing(then, now):
        yield f"{each['key']} was {each['a']}, is {each['b']}"


app = one_command(rerun, context_settings=PASSES_ON)
