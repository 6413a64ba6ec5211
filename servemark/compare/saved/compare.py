"""Compare saved results, B against A, with an exit code that a pipeline can stop at."""

from collections.abc import Sequence
from dataclasses import replace

from servemark.compare.interleaved.run import Comparison
from servemark.compare.saved.differences import Gate, compare_sides
from servemark.compare.saved.kernels import compare_kernels, read_kernels
from servemark.compare.saved.samples import names_of
from servemark.compare.saved.saved_runs import Run, engine_of, read_side
from servemark.errors import ExitCode, OptionError, ResultError, parsing
from servemark.results import directory
from servemark.results.schema.comparison import SavedComparison

CODES = {"worse": ExitCode.REGRESSION, "undecided": ExitCode.INVALID, "not worse": ExitCode.VALID}


def compare_saved(sides: Sequence[str], gate: Gate) -> SavedComparison:
    """Compare two saved sides, B against A. Raises OptionError, and ResultError also if a result is damaged."""
    if len(sides) != 2:
        raise OptionError(
            f"{len(sides)} results were named, not A and B",
            fix="servemark compare RESULT_A RESULT_B, several of a side with commas; or WORKLOAD --engines A,B",
        )
    first, second = sides
    names = names_of((first, second))
    kernels = read_kernels(first), read_kernels(second)
    with parsing(f"{first} or {second}", ResultError, fix="name whole result directories"):
        if any(kernels):
            found = compare_kernels(*kernels, gate, names)
        else:
            found = compare_sides(read_side(first), read_side(second), gate, names)
        directory.to_json(found)  # no NaN, as JSON has none
    return found


def compare_rounds(comparison: Comparison, gate: Gate) -> SavedComparison:
    """The second of two sides against the first, by the rounds that both have. Raises OptionError."""
    labels = list(dict.fromkeys(turn.label for turn in comparison.turns))
    if len(labels) != 2:
        raise OptionError(f"--fail-on with {len(labels)} sides that were measured", fix="name two")
    whole = {(turn.label, turn.round): turn for turn in comparison.turns if not turn.result["partial"]}
    rounds = sorted({number for _, number in whole if all((label, number) in whole for label in labels)})
    first, second = (
        [Run(engine_of((turn := whole[label, number]).result), turn.result, turn.latency) for number in rounds]
        for label in labels
    )
    return compare_sides(first, second, replace(gate, paired=True), (labels[0], labels[1]))


def exit_code(found: SavedComparison) -> int:
    """Return the exit code of a pipeline that stops at a regression."""
    return int(CODES[found["outcome"]])
