"""`servemark rerun`: the run that made a result once more, with its options."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from servemark.cli._command import one_command
from servemark.cli._run_file import defaults, is_text
from servemark.cli._trust import Trust, declared
from servemark.compare.saved.saved_runs import differing
from servemark.documents.files import text_of
from servemark.documents.request import RunRequest, changed
from servemark.errors import OptionError, ResultError, parsing
from servemark.machine.environment import collect
from servemark.output import note
from servemark.paths import MODEL_REPOSITORY, found
from servemark.repository.entry import Entry
from servemark.results import directory
from servemark.results.saved import file_of
from servemark.results.schema.run import RunHeader
from servemark.workload.imported import models_folder

PASSES_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Arguments after RESULT are for `run`."""


def rerun(
    context: typer.Context,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result directory, or its result.json.", parser=found)
    ],
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
    assert isinstance(context.parent.command, TyperGroup)
    run: Any = context.parent.command.commands["run"]
    file = file_of(result)
    document = directory.read_begun(file)
    request = request_of(document, file)
    if print_only:
        kinds = declared(run)
        if named := [name for name, value in defaults(request).items() if kinds[name].asked(value)]:
            note(f"look at these before a run: {', '.join(named)}")
        typer.echo(f"# servemark run --config FILE; {str(file)!r} was made so\n{text_of(request)}", nl=False)
        return
    trusting = ["--trust"] if trust else []
    with run.make_context(
        "servemark run", [*context.args, *trusting], default_map=defaults(request), obj=file
    ) as again:
        for difference in _differences(document, again.params):
            note(f"differs from {result}: {difference}")
        run.invoke(again)


def request_of(document: RunHeader, file: Path) -> RunRequest:
    """The request that a result keeps. Raises ResultError."""
    try:
        with parsing(file, ResultError, fix="name a whole result directory"):
            request = msgspec.convert(document["request"], RunRequest)
    except OptionError as error:
        raise ResultError(f"{file}: {error.what}", fix="name a whole result directory") from error
    values = [each for value in defaults(request).values() for each in (value if isinstance(value, list) else [value])]
    if strange := [each for each in values if isinstance(each, str) and not is_text(each)]:
        raise ResultError(f"{file}: {strange[0]!r:.200} is not plain text", fix="name a whole result directory")
    if request.imports_dir == str(models_folder()):
        request = changed(request, imports_dir="")  # where they are looked for anyway
    return request


def _differences(then: RunHeader, options: Mapping[str, Any]) -> Iterator[str]:
    """Name the differences to that run: packages, machine and code, and the exported model where there is one here."""
    repository = Path(options["model_repository"] or MODEL_REPOSITORY)
    entry = Entry(repository, options["workload"], options["engine"], options["precision"])
    exported = (entry.read_manifest() or then).get("artifact_sha256")
    for each in differing(then, {**then, "environment": collect(), "artifact_sha256": exported}):
        yield f"{each['key']} was {each['a']}, is {each['b']}"


app = one_command(rerun, context_settings=PASSES_ON)
