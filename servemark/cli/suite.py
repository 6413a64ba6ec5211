"""`servemark suite`: a whole suite unattended, past any workload that fails, with one table at the end."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._load_flags import takes_options
from servemark.cli._options import DEFAULT_ENGINE, DEFAULT_REPOSITORY, Engine, Json, Repository
from servemark.cli._own_models import takes_own_models
from servemark.cli._report import Report, conclude
from servemark.documents.commands import Suite
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.paths import RESULTS
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteDocument
from servemark.runs.suite import run_suite
from servemark.runs.suite_plan import measured_flops_per_s, plan
from servemark.views.kinds.suite import line
from servemark.views.render.markdown import to_markdown


@takes_options(Suite)
def suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="aibench, ai-matrix, subset, own or all.")],
    engine: Engine = DEFAULT_ENGINE,
    *,
    options: Suite,
    model_repository: Repository = DEFAULT_REPOSITORY,
    report: Report = False,
    json: Json = False,
) -> None:
    """Export and load every workload of a suite, and show one table.

    The result directory gets suite.json and suite.md, a page with machine, notes and table; both are complete after
    each workload.

    Example: servemark suite subset --concurrency 2 --duration 5

    Example: servemark suite ai-matrix --published --precision fp32 --concurrency 1 --dry-run
    """
    planned = plan(name, engine, model_repository, options)
    if options.dry_run and json:
        raise OptionError("--dry-run has no JSON document", fix="leave --json out")
    if options.dry_run:
        for planned_line in planned.lines(measured_flops_per_s()):
            stdout().print(planned_line, soft_wrap=True, highlight=False)
        return
    out = Path(options.out or RESULTS)
    directory, document = run_suite(planned, out, remove=options.remove, on_row=_show_row)
    conclude(directory, document, report=report, json=json)
    raise typer.Exit(int(ExitCode.INVALID if any(row["failure"] for row in document["rows"]) else ExitCode.VALID))


def _show_row(directory: Path, document: SuiteDocument, left_s: float | None) -> None:
    """Print the newest row, and write the page so far."""
    left = "" if left_s is None else f"; about {duration_text(left_s)} left"
    note(f"    {line(document['rows'][-1])}{left}")
    saved = Saved(directory.name, dict(document), directory)
    results.write_atomically(directory / "suite.md", to_markdown([saved]))


app = one_command(takes_own_models(suite))
