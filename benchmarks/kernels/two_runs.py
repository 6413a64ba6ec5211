"""Two runs of a suite of kernels against each other: how far equal runs lie apart.

    python -m benchmarks.kernels.two_runs [--suite quick]

The aim is a median ratio over the cases within 5 %. Beside it: how many cases lie within 5 % each.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from statistics import quantiles

from benchmarks.rig.aims import Aim
from servemark.report.kernels import named, other_work
from servemark.results.schema.kernels import KernelsDocument
from servemark.stats.ratios import median_ratio

AIM = Aim(least=0.95, most=1.05)


def run(suite: str) -> KernelsDocument:
    """The document of one run."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "servemark", "kernels", "--suite", suite, "--json", "--out", out]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    document: KernelsDocument = json.loads(done.stdout)
    return document


def main() -> None:
    """Print each case's ratio, and their median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="quick")
    suite = parser.parse_args().suite
    runs = [run(suite), run(suite)]
    first, second = ({named(case): case["ms"]["median"] for case in each["cases"] if case["ms"]} for each in runs)
    ratios = {case: second[case] / first[case] for case in first if case in second}
    for case, ratio in ratios.items():
        print(f"{ratio:.3f}  {case}")
    busy = " and ".join(f"{other_work(each):.0%}" for each in runs)
    near = sum(AIM.met(ratio) for ratio in ratios.values())
    low, _, high = quantiles(ratios.values(), n=4)
    print(f"{near} of {len(ratios)} cases within 5 %; quartiles {low:.3f} and {high:.3f}; other work used {busy}")
    found = median_ratio([(second[case], first[case]) for case in ratios])
    print(f"median ratio of the second run to the first: {found}; {AIM.verdict(found.value)}")


if __name__ == "__main__":
    main()
