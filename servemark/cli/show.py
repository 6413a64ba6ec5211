"""`servemark show`: a saved result again, as it was shown at its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kernels.views.terminal import render_kernels
from servemark.cli._command import one_command
from servemark.cli._options import Json, Verbose
from servemark.errors import ResultError, parsing
from servemark.output import stdout
from servemark.paths import found
from servemark.results import directory
from servemark.results.saved import file_of, read_saved
from servemark.views.quality import render_quality
from servemark.views.terminal.comparison import render_comparison
from servemark.views.terminal.load import render
from servemark.views.terminal.max_rate import render_max_rate
from servemark.views.terminal.mix import render_mix
from servemark.views.terminal.mlperf import render_mlperf
from servemark.views.terminal.suite import render_suite
from servemark.views.terminal.tuning import render_tuning


def show(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result directory, or its JSON file.", parser=found)
    ],
    json: Json = False,
    verbose: Verbose = False,  # noqa: ARG001 - its callback says so to the report
) -> None:
    """Show a saved run, search, comparison, tuning, suite, MLPerf run, quality run or kernels again.

    Example: servemark show results/latest -v
    """
    file = file_of(result)
    if json:
        directory.print_json(directory.read(file))
        return
    document = read_saved(result).document
    with parsing(file, ResultError, fix="name a whole result directory"):
        _renderer(document, file)(document, stdout())


def _renderer(document: dict[str, Any], file: Path) -> Callable[[Any, Console], None]:
    """Return the renderer for the document's kind. Raises ResultError."""
    if document.get("kind") == "load":
        return render_max_rate if "max_rate" in document else render_mix if "mix" in document else render
    renderers: dict[str, Callable[[Any, Console], None]] = {
        "comparison": render_comparison,
        "tuning": render_tuning,
        "suite": render_suite,
        "mlperf": render_mlperf,
        "kernels": render_kernels,
        "quality": render_quality,
    }
    kind = str(document.get("kind"))
    if kind not in renderers:
        raise ResultError(f"{file} is of the kind {kind!r}, which has no report", fix="name a result directory")
    return renderers[kind]


app = one_command(show)
