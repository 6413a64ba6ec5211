"""`servemark report`: saved results as one page, as tables, for a pull request, for a pipeline."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from servemark.cli._report import PAGE, each, read_all, side_by_side, write_page
from servemark.documents.commands.show import Report
from servemark.errors import OptionError, ResultError, parsing
from servemark.library.arrays import to_parquet
from servemark.monitoring.mlflow import Mlflow
from servemark.output import note
from servemark.paths import shown
from servemark.quantities import one_of
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.telemetry.metrics.publisher import http_url
from servemark.views.render.markdown import to_markdown
from servemark.views.render.programs import to_csv, to_junit, to_run

FORMATS: dict[str, Callable[[list[Saved]], str]] = {
    "md": lambda documents: to_markdown(side_by_side(documents)),
    "csv": lambda documents: to_csv(each(documents)),
    "junit": lambda documents: to_junit(each(documents)),
}
"""Beside html; they are written to stdout where no file is named."""
PARQUET = "parquet"


def report(options: Report) -> None:
    """Write what is asked for of the results."""
    results, out, mlflow = options.results, options.out, options.mlflow
    chosen = one_of("--format", options.form, ["html", *FORMATS, PARQUET])
    if out and (chosen == PARQUET or mlflow):
        given = "--mlflow sends files" if mlflow else "--format parquet writes beside each result"
        raise OptionError(given, fix="leave out --out")
    documents = read_all(results)
    if mlflow:
        _send(documents, mlflow)
        return
    if chosen == PARQUET:
        _write_tables(each(documents))
        return
    if chosen == "html":
        beside = results[0] if results[0].is_dir() else results[0].parent
        file = out or (beside / PAGE if len(results) == 1 else Path(PAGE))
        write_page(file, side_by_side(documents))
        return
    with parsing(", ".join(map(str, results)), ResultError, fix="name whole result directories"):
        text = FORMATS[chosen](documents)
    if out:
        directory.write_atomically(out, text)
    else:
        click.echo(text, nl=False)


def _write_tables(documents: Sequence[Saved]) -> None:
    """Write the tables of each run beside it. Raises ResultError where none of them has any."""
    having = 0
    for saved in documents:
        files = to_parquet(saved)
        having += bool(files)
        for file in files:
            note(f"table: {shown(file)}")
        if not files:
            note(f"left out: {saved.name} has neither requests nor series")
    if not having:
        raise ResultError("no result here has requests or series", fix="name the directory of a run")


def _send(documents: list[Saved], url: str) -> None:
    """Add each result to an MLflow server. Raises OptionError, ResultError, ServerError."""
    server = Mlflow(http_url("--mlflow", url))
    for saved in each(documents):
        with parsing(saved.name, ResultError, fix="name whole result directories"):
            run = to_run(saved)
        note(f"MLflow: {server.add(run)}")
