"""Two runs of a suite of kernels against each other: how far equal runs lie apart.

    python -m benchmarks.kernels.two_runs [--suite quick] [--apart]

The aim is a median ratio over the cases within 5 %. Both runs measure case by case in turns, each in a process of its
own, so that a machine that changes changes for both. With `--apart` the second begins when the first has ended: what
that adds is the machine's. The probe of each case tells how much that is.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from benchmarks.rig.aims import Aim
from servemark.kernels.measurement.case import Case, Method, cases_in
from servemark.kernels.measurement.device import Device
from servemark.kernels.measurement.run import begin, go_on
from servemark.kernels.suites import cases_of
from servemark.report.kernels import PROBES, named, other_work
from servemark.results.schema.kernels import KernelsDocument
from servemark.stats.ratios import median_ratio

AIM = Aim(least=0.95, most=1.05)


def measured(suite: str, cases: Sequence[Case], *, apart: bool) -> list[KernelsDocument]:
    """Both runs. The one that began with a case is the second with the next."""
    method = Method(Device.named("cpu"))
    with tempfile.TemporaryDirectory() as out:
        runs = [(Path(out) / name, begin(suite, cases, method)) for name in ("first", "second")]
        for folder, _ in runs:
            folder.mkdir()
        if apart:
            return [go_on(folder, document, cases, method) for folder, document in runs]
        for number in range(1, len(cases) + 1):
            for folder, document in runs if number % 2 else runs[::-1]:
                go_on(folder, document, cases[:number], method)
        return [document for _, document in runs]


def main() -> None:
    """Print each case's ratio, and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--apart", action="store_true", help="one run after the other")
    asked = parser.parse_args()
    runs = measured(asked.suite, cases_in(["fp32"], cases_of(asked.suite, ())), apart=asked.apart)
    first, second = ({named(case): case["ms"]["median"] for case in each["cases"] if case["ms"]} for each in runs)
    ratios = {case: second[case] / first[case] for case in first if case in second}
    for case, ratio in ratios.items():
        print(f"{ratio:.3f}  {case}")
    busy = " and ".join(f"{other_work(each):.0%}" for each in runs)
    near = sum(AIM.met(ratio) for ratio in ratios.values())
    low, _, high = quantiles(ratios.values(), n=4)
    print(f"{near} of {len(ratios)} cases within 5 %; quartiles {low:.3f} and {high:.3f}; other work used {busy}")
    for probe in PROBES:
        a, b = ({named(case): known[probe] for case in each["cases"] if (known := case.get("probe"))} for each in runs)
        own = median_ratio([(b[case], a[case]) for case in ratios])
        print(f"the machine itself, {probe} before each case, second to first: {own}")
    found = median_ratio([(second[case], first[case]) for case in ratios])
    print(f"median ratio of the second run to the first: {found}; {AIM.verdict(found.value)}")


if __name__ == "__main__":
    main()
