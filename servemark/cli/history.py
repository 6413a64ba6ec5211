"""`servemark history`: a figure over all saved results, and where it changed."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._command import one_command
from servemark.cli._options import Json, quantity
from servemark.cli._report import write_page
from servemark.compare.history.document import history as history_of
from servemark.errors import ExitCode, OptionError
from servemark.figures.registry import find
from servemark.paths import found as found_below
from servemark.quantities import PERCENT, one_of
from servemark.results.directory import print_json
from servemark.results.saved import Saved
from servemark.views.render.terminal import show

CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not shown": ExitCode.VALID}


def history(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with results, at any depth.", parser=found_below)
    ],
    metric: Annotated[
        str, typer.Option(metavar="M", help="p99, throughput.inferences, max_rate, energy.per_inference, ...")
    ] = "p99",
    threshold: Annotated[
        float, quantity("--threshold", "PERCENT", "Smaller changes do not count.", least=0, units=PERCENT)
    ] = 5.0,
    fail_on: Annotated[
        str,
        typer.Option(metavar="regression", help="Exit 5 where a latest change is for the worse, 2 where undecided."),
    ] = "",
    allow_invalid: Annotated[
        bool, typer.Option("--allow-invalid", help="Use INVALID and partial results too.")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the plots as a page.")] = None,
    json: Json = False,
) -> None:
    """Follow a figure over all results below a folder, and find where it changed and between which commits.

    Results that measured the same on the same machine are a series. INVALID ones are listed, and not used.

    Example: servemark history results --metric p99 --fail-on regression -o history.html
    """
    if fail_on:
        one_of("--fail-on", fail_on, ["regression"])
    figure = find(metric)
    if figure.better is None:
        raise OptionError(f"--metric {metric}: neither more nor less of it is better", fix="name another figure")
    found = history_of(folder, figure, threshold=threshold / 100, allow_invalid=allow_invalid)
    if json:
        print_json(found)
    else:
        show(found)
    if out:
        write_page(out, [Saved(f"history of {figure.tag}", dict(found))], quiet=json)
    raise typer.Exit(int(CODES[found["outcome"]] if fail_on else ExitCode.VALID))


app = one_command(history)
