"""`servemark history`: a figure over all saved results, and where it changed."""

from servemark.cli._report import present, write_page
from servemark.compare.history import history as history_of
from servemark.documents.commands.compare import History
from servemark.errors import ExitCode, OptionError
from servemark.figures.registry import find
from servemark.results.saved import Saved

CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not shown": ExitCode.VALID}


def history(options: History) -> int:
    """Follow a figure; the exit code."""
    figure = find(options.metric)
    if figure.better is None:
        raise OptionError(
            f"--metric {options.metric}: neither more nor less of it is better", fix="name another figure"
        )
    found = history_of(options.folder, figure, threshold=options.threshold / 100, allow_invalid=options.allow_invalid)
    present(found, json=options.json)
    if options.out:
        write_page(options.out, [Saved(f"history of {figure.tag}", dict(found))])
    return int(CODES[found["outcome"]] if options.fail_on else ExitCode.VALID)
