"""Saved results: B against A, and an exit code that a pipeline can stop at."""

from collections.abc import Sequence

from servemark.errors import ExitCode, OptionError
from servemark.output import stdout
from servemark.regression.differences import Gate, compare_sides
from servemark.regression.saved_runs import read_side
from servemark.regression.sides import names_of
from servemark.report.terminal.regression import render_regression
from servemark.results import directory
from servemark.results.schema.comparison import SavedComparison

CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not worse": ExitCode.VALID}


def compare_saved(sides: Sequence[str], gate: Gate, *, fails: bool, json: bool) -> int:
    """Report how two sides differ; the exit code, 0 unless it `fails`. Raises OptionError, ResultError."""
    if len(sides) != 2:
        raise OptionError(
            f"{len(sides)} results were named, not A and B",
            fix="servemark compare RESULT_A RESULT_B, several of a side with commas; or WORKLOAD --engines A,B",
        )
    first, second = sides
    found = compare_sides(read_side(first), read_side(second), gate, names_of((first, second)))
    if json:
        directory.print_json(found)
    else:
        render_regression(found, stdout())
    return exit_code(found) if fails else int(ExitCode.VALID)


def exit_code(found: SavedComparison) -> int:
    """What a pipeline ends with."""
    return int(CODES[found["outcome"]])
