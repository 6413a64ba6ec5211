"""`servemark suite`: a whole suite unattended, past any workload that fails, with one table at the end."""

from pathlib import Path

from servemark.cli._report import conclude
from servemark.documents.commands.measure import Suite
from servemark.errors import ExitCode, OptionError
from servemark.output import note, stdout
from servemark.quantities import duration_text
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteDocument
from servemark.runs.suite import run_suite
from servemark.runs.suite_plan import measured_flops_per_s, plan
from servemark.views.kinds.suite import line
from servemark.views.render.markdown import to_markdown


def suite(options: Suite) -> int:
    """Run a suite; the exit code."""
    planned = plan(options.name, options.engine, options.model_repository, options)
    if options.dry_run and options.json:
        raise OptionError("--dry-run has no JSON document", fix="leave --json out")
    if options.dry_run:
        for planned_line in planned.lines(measured_flops_per_s()):
            stdout().print(planned_line, soft_wrap=True, highlight=False)
        return int(ExitCode.VALID)
    directory, document = run_suite(planned, options.out, remove=options.remove, on_row=_show_row)
    conclude(directory, document, report=options.report, json=options.json)
    return int(ExitCode.INVALID if any(row["failure"] for row in document["rows"]) else ExitCode.VALID)


def _show_row(directory: Path, document: SuiteDocument, left_s: float | None) -> None:
    """Print the newest row, and write the page so far."""
    left = "" if left_s is None else f"; about {duration_text(left_s)} left"
    note(f"    {line(document['rows'][-1])}{left}")
    saved = Saved(directory.name, dict(document), directory)
    results.write_atomically(directory / "suite.md", to_markdown([saved]))
