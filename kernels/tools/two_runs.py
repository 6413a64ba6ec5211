"""Equal runs of a suite of kernels against each other: how far they lie apart.

    python -m kernels.tools.two_runs [--suite quick] [--runs 2] [--apart]
    python -m kernels.tools.two_runs --results DIR DIR...

The aim is a median ratio over the cases within 5 %, for each pair of runs. The runs measure case by case in turns, each
in a process of its own, so that a machine that changes changes for all. With `--apart` each begins when the one before
has ended. The probes of the cases tell how much of a ratio is the machine's.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from statistics import quantiles

from benchmarks.rig.pairs import Aim
from kernels.measurement.case import Case, Method, cases_in
from kernels.measurement.device import Device
from kernels.running import begin, run
from kernels.suites import cases_of
from servemark.campaign import interleaved
from servemark.compare.saved.compare import PROBES, WHOLE, WITHOUT, compare_kernels
from servemark.compare.saved.figures import Gate
from servemark.results import directory as results
from servemark.results.schema.kernels import KernelsDocument, named, other_work

AIM = Aim(least=0.95, most=1.05)
FIGURES = (WHOLE, *PROBES.values(), WITHOUT)


def measured(suite: str, cases: Sequence[Case], count: int, *, apart: bool) -> list[KernelsDocument]:
    """Measure the runs. In turns they take the cases in this order, and the next one in the other."""
    method = Method(Device.named("cpu"))
    with tempfile.TemporaryDirectory() as out:
        folders = [Path(out) / str(number) for number in range(count)]
        for folder in folders:
            folder.mkdir()
        if apart:
            return [run(folder, begin(suite, cases, method), cases, method) for folder in folders]
        found: dict[Path, KernelsDocument] = {}
        for number in range(1, len(cases) + 1):
            for folder in interleaved(folders, number):
                begun = begin(suite, cases, method)
                found[folder] = run(folder, begun, cases[:number], method, resume=number > 1)
        return [found[folder] for folder in folders]


def lines(runs: Sequence[KernelsDocument]) -> Iterator[str]:
    """The ratios of each pair, and how many of them meet the aim."""
    yield "pair    cases within 5 %  their quartiles  " + "  ".join(FIGURES)
    within: list[list[bool]] = []
    for first, second in combinations(range(len(runs)), 2):
        cases = _of_cases(runs[first], runs[second])
        compared = compare_kernels([runs[first]], [runs[second]], Gate(), (f"{first + 1}", f"{second + 1}"))
        rows = {row["figure"]: row["ratio"] for row in compared["subjects"][0]["differences"]}
        found = {figure: ratio for figure in FIGURES if (ratio := rows.get(figure))}
        low, _, high = quantiles(cases, n=4)
        cells = [f"{each['value']:{len(figure)}.3f}" for figure, each in found.items()]
        near = f"{sum(map(AIM.met, cases))} of {len(cases)}"
        yield f"{first + 1} to {second + 1}  {near:>16}  {low:.3f} to {high:.3f}  " + "  ".join(cells)
        within.append([AIM.met(found[figure]["value"]) for figure in (WHOLE, WITHOUT)])
    raw, without = (sum(met) for met in zip(*within, strict=True))
    busy = max(map(other_work, runs))
    yield f"{raw} of {len(within)} pairs within 5 %; without what the machine itself changed by, {without}"
    yield f"other work of this machine used {busy:.0%} of its cores at most"


def _of_cases(first: KernelsDocument, second: KernelsDocument) -> list[float]:
    a, b = ({named(case): case["ms"]["median"] for case in run["cases"] if case["ms"]} for run in (first, second))
    return [b[case] / a[case] for case in a if case in b]


def main() -> None:
    """Print each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--apart", action="store_true", help="one run after the other")
    parser.add_argument("--results", type=Path, nargs="+", help="of `servemark kernels`; measure nothing")
    asked = parser.parse_args()
    if len(asked.results or range(asked.runs)) < 2:
        parser.error("a pair needs two runs: --runs 2 or more, or two --results")
    if asked.results:
        runs = [results.read_as(folder, KernelsDocument) for folder in asked.results]
    else:
        cases = cases_in(["fp32"], cases_of(asked.suite, ()))
        runs = measured(asked.suite, cases, asked.runs, apart=asked.apart)
    for line in lines(runs):
        print(line)


if __name__ == "__main__":
    main()
