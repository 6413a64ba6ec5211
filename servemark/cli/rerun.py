"""`servemark rerun`: the run that made a result once more, with its options."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from servemark.cli._command import one_command
from servemark.cli._run_file import Value, defaults, is_repeatable, is_switch, is_text, parameters, written
from servemark.cli._trust import Trust, declared
from servemark.errors import ResultError, parsing
from servemark.machine.environment import collect
from servemark.output import note
from servemark.regression.saved_runs import differing
from servemark.repository.entry import Entry
from servemark.results import directory
from servemark.results.saved import file_of
from servemark.results.schema.run import Result
from servemark.workload.imported import models_folder

PASSES_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What follows RESULT is for `run`."""


def rerun(
    context: typer.Context,
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result directory, or its result.json.")],
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the options as a file for `run --config`, and run nothing.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Run again what made a result. Options of `run` after RESULT come before the result's.

    A program, a path or a host that the result names is shown, and is taken after a yes or with --trust.

    Example: servemark rerun results/latest --duration 60
    """
    assert context.parent is not None
    run: Any = cast(Any, context.parent.command).commands["run"]
    file = file_of(result)
    document = directory.read_run(file)
    known = parameters(run)
    options = _options_of(document, file, known)
    if print_only:
        kinds = declared(run)
        if named := [name for name, value in options.items() if kinds[known[name].name].asked(value)]:
            note(f"look at these lines before a run: {', '.join(named)}")
        typer.echo(f"# servemark run --config FILE; {str(file)!r} was made so\n{written(options)}", nl=False)
        return
    again = run.make_context(
        "servemark run",
        [*context.args, *(["--trust"] if trust else [])],
        default_map=defaults(options, known),
        obj=file,
    )
    with again:
        for difference in _differences(document, again.params):
            note(f"differs from {result}: {difference}")
        run.invoke(again)


def _options_of(document: Result, file: Path, known: Mapping[str, Any]) -> dict[str, Value]:
    """The options that a result keeps, each of its kind. Raises ResultError."""
    with parsing(file, ResultError, fix="name a whole result directory"):
        kept: dict[str, Any] = dict(document["config"].get("options") or {})
        made_by = shlex.join(map(str, document["command"]))
    options = {name.replace("_", "-"): value for name, value in kept.items()}
    if not options:
        raise ResultError(f"{file} does not keep its options", fix=f"its command was: {made_by}")
    if strange := sorted(options.keys() - known.keys()):
        raise ResultError(f"{file} has options that this version lacks: {', '.join(strange):.200}", fix="update servemark")
    for name, value in options.items():
        if not _fits(value, known[name]):
            raise ResultError(f"{file}: {value!r:.200} is no value of {name}", fix="name a whole result directory")
    if options.get("models") == str(models_folder()):
        del options["models"]  # where they are looked for anyway
    return options


def _fits(value: Any, parameter: Any) -> bool:
    """Whether a value is of the kind that an option takes."""
    if is_switch(parameter):
        return isinstance(value, bool)
    if is_repeatable(parameter) and isinstance(value, list):
        return all(isinstance(each, str) and is_text(each) for each in value)
    return isinstance(value, str) and is_text(value)


def _differences(then: Result, options: Mapping[str, Any]) -> Iterator[str]:
    """What is not as it was: packages, machine and code, and the exported model where there is one here."""
    repository = Path(options["model_repository"])
    entry = Entry(repository, options["workload"], options["engine"], options["precision"])
    exported = (entry.read_manifest() or then).get("artifact_sha256")
    now = cast(Result, {**then, "environment": collect(), "artifact_sha256": exported})
    for each in differing(then, now):
        yield f"{each['key']} was {each['a']}, is {each['b']}"


app = one_command(rerun, context_settings=PASSES_ON)
