"""`servemark rerun`: the run that made a result once more, with its options."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from servemark.cli._command import Source, command_of
from servemark.compare.saved.saved_runs import differing
from servemark.documents.commands.measure import Rerun, Run
from servemark.documents.files import text_of
from servemark.documents.flags import given_options
from servemark.documents.request import RunRequest, changed
from servemark.errors import OptionError, ResultError, parsing
from servemark.machine.environment import collect
from servemark.output import note
from servemark.paths import MODEL_REPOSITORY
from servemark.repository.entry import Entry
from servemark.results import directory
from servemark.results.saved import file_of
from servemark.results.schema.run import RunHeader
from servemark.workload.imported import models_folder

RUN = command_of("run", "servemark.cli.run", "measure")


def rerun(options: Rerun) -> int | None:
    """Run again what made a result; the exit code."""
    file = file_of(options.result)
    document = directory.read_begun(file)
    request = request_of(document, file)
    if options.print_only:
        named = [name for name, value in given_options(request).items() if RUN.options[name].asked(value)]
        if named:
            note(f"look at these before a run: {', '.join(named)}")
        click.echo(f"# servemark run --config FILE; {str(file)!r} was made so\n{text_of(request)}", nl=False)
        return None
    with RUN.make_context("servemark run", [*options.options], obj=Source(file, request, own=options.trust)) as context:
        again: Run = RUN.document(context)
        with RUN.environment(again):
            for difference in _differences(document, again):
                note(f"differs from {options.result}: {difference}")
        return RUN.run(again)


def request_of(document: RunHeader, file: Path) -> RunRequest:
    """The request that a result keeps. Raises ResultError."""
    try:
        with parsing(file, ResultError, fix="name a whole result directory"):
            request = msgspec.convert(document["request"], RunRequest)
    except OptionError as error:
        raise ResultError(f"{file}: {error.what}", fix="name a whole result directory") from error
    values = [
        each for value in given_options(request).values() for each in (value if isinstance(value, list) else [value])
    ]
    if strange := [each for each in values if isinstance(each, str) and "\0" in each]:
        raise ResultError(f"{file}: {strange[0]!r:.200} is not plain text", fix="name a whole result directory")
    if request.imports_dir == str(models_folder()):
        request = changed(request, imports_dir="")  # where they are looked for anyway
    return request


def _differences(then: RunHeader, run: Run) -> Iterator[str]:
    """Name the differences to that run: packages, machine and code, and the exported model where there is one here."""
    repository = Path(str(run.given["model_repository"] or MODEL_REPOSITORY))
    entry = Entry(repository, run.workload, str(run.given["engine"]), str(run.given["precision"]))
    exported = (entry.read_manifest() or then).get("artifact_sha256")
    for each in differing(then, {**then, "environment": collect(), "artifact_sha256": exported}):
        yield f"{each['key']} was {each['a']}, is {each['b']}"
