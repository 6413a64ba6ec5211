"""Saved results: B against A, and exit code 5 where it is worse."""

from collections.abc import Sequence

from servemark.errors import ExitCode, OptionError
from servemark.output import stdout
from servemark.regression.differences import compare_sides
from servemark.regression.saved_runs import read_side
from servemark.report.terminal.regression import render_regression
from servemark.results import directory


def compare_saved(sides: Sequence[str], *, fail_on: str, threshold: float, json: bool) -> int:
    """Report how two sides differ; the exit code. `threshold` is in percent. Raises OptionError, ResultError."""
    if fail_on not in {"", "regression"}:
        raise OptionError(f"--fail-on {fail_on!r} is unknown", fix="--fail-on regression")
    if len(sides) != 2:
        raise OptionError(
            f"{len(sides)} results were named, not A and B",
            fix="servemark compare RESULT_A RESULT_B, several of a side with commas; or WORKLOAD --engines A,B",
        )
    found = compare_sides(read_side(sides[0]), read_side(sides[1]), threshold / 100, (sides[0], sides[1]))
    if json:
        directory.print_json(found)
    else:
        render_regression(found, stdout())
    return int(ExitCode.REGRESSION if fail_on and found["regressions"] else ExitCode.VALID)
