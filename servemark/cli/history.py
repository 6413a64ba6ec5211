"""`servemark history`: a figure over all saved results, and where it changed."""

from servemark.cli._report import write_page
from servemark.compare.history import history as history_of
from servemark.documents.commands.compare import History
from servemark.errors import ExitCode, OptionError
from servemark.figures.registry import find
from servemark.results.directory import print_json
from servemark.results.saved import Saved
from servemark.views.render.terminal import show

CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not shown": ExitCode.VALID}


def history(options: History) -> int:
    """Follow a figure; the exit code."""
    figure = find(options.metric)
    if figure.better is None:
        raise OptionError(
            f"--metric {options.metric}: neither more nor less of it is better", fix="name another figure"
        )
    found = history_of(options.folder, figure, threshold=options.threshold / 100, allow_invalid=options.allow_invalid)
    if options.json:
        print_json(found)
    else:
        show(found)
    if options.out:
        write_page(options.out, [Saved(f"history of {figure.tag}", dict(found))], quiet=options.json)
    return int(CODES[found["outcome"]] if options.fail_on else ExitCode.VALID)
