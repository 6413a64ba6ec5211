"""`servemark suite`: a whole suite unattended, past any workload that fails, with one table at the end."""

from pathlib import Path

from servemark.cli._report import conclude
from servemark.documents.commands.measure import Suite
from servemark.errors import ExitCode, OptionError
from servemark.output import stdout
from servemark.results import directory as results
from servemark.results.saved import Saved
from servemark.results.schema.suite import SuiteDocument
from servemark.runs.suite import measured_flops_per_s, plan, run_suite
from servemark.views.render.markdown import to_markdown


def suite(options: Suite) -> int:
    """Run a suite; the exit code."""
    planned = plan(options)
    if options.dry_run and options.json:
        raise OptionError("--dry-run has no JSON document", fix="leave --json out")
    if options.dry_run:
        for planned_line in planned.lines(measured_flops_per_s()):
            stdout().print(planned_line, soft_wrap=True, highlight=False)
        return int(ExitCode.VALID)
    directory, document = run_suite(planned, _write_page)
    conclude(directory, document, options)
    return int(ExitCode.INVALID if any(row["failure"] for row in document["rows"]) else ExitCode.VALID)


def _write_page(directory: Path, document: SuiteDocument) -> None:
    """Write the page so far."""
    saved = Saved(directory.name, dict(document), directory)
    results.write_atomically(directory / "suite.md", to_markdown([saved]))
