"""`servemark report`: saved results as one page, as tables, for a pull request, for a pipeline."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._report import PAGE, each, read_all, side_by_side, write_page
from servemark.errors import OptionError, ResultError, parsing
from servemark.library.conversion import to_parquet
from servemark.monitoring.mlflow import Mlflow
from servemark.output import note
from servemark.paths import found, shown
from servemark.quantities import one_of
from servemark.results import directory
from servemark.results.saved import Saved
from servemark.telemetry.metrics.destinations import http_url
from servemark.views.render.csv import to_csv
from servemark.views.render.junit import to_junit
from servemark.views.render.markdown import to_markdown
from servemark.views.render.mlflow import to_run

FORMATS: dict[str, Callable[[list[Saved]], str]] = {
    "md": lambda documents: to_markdown(side_by_side(documents)),
    "csv": lambda documents: to_csv(each(documents)),
    "junit": lambda documents: to_junit(each(documents)),
}
"""Beside html; they are written to stdout where no file is named."""
PARQUET = "parquet"


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT...", help="Result directories, or their JSON files.", parser=found)
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Else stdout; html: report.html.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="F", help="html, md, csv, junit or parquet.")] = "html",
    mlflow: Annotated[
        str, typer.Option("--mlflow", metavar="URL", help="Send each result to this MLflow server instead.")
    ] = "",
) -> None:
    """Write saved runs, searches, comparisons, tunings and suites as one self-contained HTML page.

    Several runs stand side by side; those of a range of rates are a curve. The page of one result lies beside it.

    csv: one row a result. md: for a pull request. junit: a test case for each constraint and each objective.

    parquet: requests.parquet, if --request-log kept them, and series.parquet beside each result.

    --mlflow: a run with request, figures, verdict and page. MLFLOW_EXPERIMENT_NAME names the experiment.

    Example: servemark report results/20261120-140000-ranking_onnxruntime

    Example: servemark report results/before results/after --format csv -o runs.csv
    """
    chosen = one_of("--format", form, ["html", *FORMATS, PARQUET])
    if out and (chosen == PARQUET or mlflow):
        given = "--mlflow sends files" if mlflow else "--format parquet writes beside each result"
        raise OptionError(given, fix="leave out --out")
    documents = read_all(results)
    if mlflow:
        _send(documents, mlflow)
        return
    if chosen == PARQUET:
        for saved in each(documents):
            for file in to_parquet(saved):
                note(f"table: {shown(file)}")
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
        typer.echo(text, nl=False)


def _send(documents: list[Saved], url: str) -> None:
    """Add each result to an MLflow server. Raises OptionError, ResultError, ServerError."""
    server = Mlflow(http_url("--mlflow", url))
    for saved in each(documents):
        with parsing(saved.name, ResultError, fix="name whole result directories"):
            run = to_run(saved)
        note(f"MLflow: {server.add(run)}")


app = one_command(report)
