"""`servemark compare`: engines side by side in interleaved rounds, or saved results against each other."""

from pathlib import Path

from servemark.cli._load import resolved
from servemark.cli._report import PAGE, present, write_page
from servemark.compare.interleaved.contenders import parse_urls
from servemark.compare.interleaved.preparation import Request
from servemark.compare.interleaved.run import compare_engines
from servemark.compare.interleaved.timetable import SHORTEST_S
from servemark.compare.saved.compare import compare_rounds, compare_saved, exit_code
from servemark.compare.saved.figures import ALL, Gate, chosen
from servemark.compare.saved.saved_runs import baseline
from servemark.documents.commands.compare import Compare
from servemark.documents.request import changed
from servemark.errors import ExitCode
from servemark.output import note
from servemark.paths import shown
from servemark.quantities import text_of
from servemark.results.directory import write_atomically
from servemark.results.saved import Saved
from servemark.results.schema.comparison import ComparisonDocument
from servemark.views.render.markdown import to_markdown


def compare(options: Compare) -> int:
    """Compare what is named; the exit code."""
    gate = Gate(options.fail_on or ALL, options.threshold / 100, options.allow_invalid)
    chosen(gate.figures)  # before the minutes that the rounds take
    if options.of_saved:
        return _saved(gate, options)
    comparison = compare_engines(_request(options), _write_pages)
    found = compare_rounds(comparison, gate) if options.fail_on else None
    if found:
        comparison.add_gate(found)
    present(comparison.document, json=options.json)
    page = comparison.folder / PAGE
    note(f"result: {shown(page if page.exists() else comparison.folder)}")
    return exit_code(found) if found else int(comparison.exit_code)


def _request(options: Compare) -> Request:
    """Make the request of a comparison, and check it. Raises OptionError, InputDataError, ServerError."""
    given, urls = options.given, parse_urls(options.urls) if options.urls else {}
    duration = str(given["duration"] or text_of(SHORTEST_S))
    run = options.request(options.what[0], duration=duration)
    options.require_fit(run)
    options.require_scoring(given=run.objectives.quality)
    options.require_fixed_warmup()
    # The first one is asked what a model is that no workload is called like.
    config = resolved(changed(run, url=next(iter(urls.values()))) if urls else run)
    choose_length = not (given["duration"] or given["stages"] or given["arrival_trace"])
    return Request(options, config, options.search_load(duration), urls, choose_length)


def _saved(gate: Gate, options: Compare) -> int:
    """Compare and show two saved sides; return the exit code, which is 0 unless --fail-on is given."""
    kept = [str(baseline(options.baseline))] if options.baseline else []
    found = compare_saved([*kept, *options.what], gate)
    present(found, json=options.json)
    if options.markdown:
        page = Path(options.markdown)
        write_atomically(page, to_markdown([Saved(page.stem, dict(found))]))
    return exit_code(found) if options.fail_on else int(ExitCode.VALID)


def _write_pages(folder: Path, document: ComparisonDocument) -> None:
    """Write comparison.md and report.html."""
    saved = [Saved(folder.name, dict(document), folder)]
    write_atomically(folder / "comparison.md", to_markdown(saved))
    write_page(folder / PAGE, saved, quiet=True)
