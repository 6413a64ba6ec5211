"""`servemark report`: saved results as one page."""

from pathlib import Path
from typing import Annotated

import typer

from servemark.cli._report import PAGE, read_all, write_page

Results = Annotated[list[Path], typer.Argument(metavar="RESULT...", help="Result directories, or their JSON files.")]


def report(
    results: Results,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Else report.html: of one result beside it.")
    ] = None,
) -> None:
    """Write saved runs, searches, comparisons, tunings and suites as one self-contained HTML page.

    Several runs stand side by side; those of a range of rates are a curve.

    Example: servemark report results/20261120-140000-ranking_onnxruntime
    """
    documents = read_all(results)
    beside = results[0] if results[0].is_dir() else results[0].parent
    write_page(out or (beside / PAGE if len(results) == 1 else Path(PAGE)), documents)
