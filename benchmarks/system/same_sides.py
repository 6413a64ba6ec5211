"""How often equal sides are called different: `python -m benchmarks.system.same_sides --server golden --times 200`.

    python -m benchmarks.system.same_sides --server triton --times 20 --workload ranking --rate 300 --seconds 3

Each comparison is five rounds, A B and B A in turns, of short runs of the real meter against one and the same server.
They are judged as `servemark compare` does: as pairs, as the rounds of `--urls`, and as two independent sides, as saved
results. At a threshold of 0 whatever exceeds chance is called different. No run is shared by two comparisons.
"""

import argparse
import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.rig.pairs import alternate
from loadgen.evaluation.result import complete, header
from loadgen.load.load_config import LoadConfig
from loadgen.measurement.measurement import Measurement
from loadgen.measurement.sender import Sender
from loadgen.targets.open import open_target
from servemark.regression.figures import Pair
from servemark.regression.saved_runs import Run
from servemark.regression.sides import Side
from servemark.results.schema.run import PendingResult
from servemark.runs import server_for
from servemark.workload import get
from tests.support.locust_run import server_of

ROUNDS = 5
WARMUP_S = 0.05
CAPACITY = 2.0
"""The golden server is an M/D/1 queue of so many times the rate: half loaded."""
FIGURES = ("p50", "p99", "throughput")
CONFIDENCE = 1 - 0.05 / len(FIGURES)
THRESHOLDS = (0.0, 0.05, 0.10)


class Meter:
    """Makes one short run after another."""

    def __init__(self, config: LoadConfig, scratch: Path) -> None:
        self._config, self._scratch = config, scratch
        self._pending: PendingResult | None = None

    def measure(self, seed: int) -> Run:
        """One run with this seed."""
        config = replace(self._config, seed=seed)
        target = open_target(config)
        sender = Sender(config, target, on_request=lambda *_: None)
        measurement = Measurement(config, target, sender, on_progress=lambda *_: None)
        try:
            prepared = measurement.prepare()
            # The machine is described once: reading it takes longer than a run.
            self._pending = self._pending or header(measurement)
            measured = measurement.run(prepared, self._scratch)
            return Run("same", complete(self._pending, measurement), measured.recorder.latency)
        finally:
            target.close()


def compared(meter: Meter, number: int) -> tuple[list[Run], list[Run]]:
    """The runs of one comparison; the two of a round have one schedule, and no other run has it."""
    seeds = [iter(range(ROUNDS * number, ROUNDS * (number + 1))) for _ in range(2)]
    rounds = alternate(lambda: meter.measure(next(seeds[0])), lambda: meter.measure(next(seeds[1])), ROUNDS)
    a, b = zip(*rounds, strict=True)
    return list(a), list(b)


def outcome(sides: tuple[Sequence[Run], Sequence[Run]], threshold: float, *, paired: bool) -> str:
    """What is said of B: `different` where any figure reads worse or better, `same`, or `undecided`."""
    pair = Pair(Side("A", sides[0]), Side("B", sides[1]), threshold, CONFIDENCE, paired)
    readings = {pair.compare(figure)["reading"] for figure in FIGURES}
    if readings & {"worse", "better"}:
        return "different"
    return "same" if readings == {"not worse"} else "undecided"


def report(counts: dict[tuple[bool, float], Counter[str]], times: int) -> Iterator[str]:
    """A row for each way to judge, with the 95 % upper bound of the share (Clopper and Pearson)."""
    from scipy.stats import binomtest

    yield "judged as        threshold  different  (95 % interval)     not worse  undecided"
    for (paired, threshold), found in counts.items():
        interval = binomtest(found["different"], times).proportion_ci()
        yield (
            f"{'pairs' if paired else 'independent':<15} {threshold:>9.0%} {found['different'] / times:>10.1%}"
            f"  ({interval.low:.1%} to {interval.high:.1%})".ljust(56)
            + f"{found['same'] / times:>10.1%} {found['undecided'] / times:>10.1%}"
        )


@contextlib.contextmanager
def serving(options: argparse.Namespace) -> Iterator[LoadConfig]:
    """A server, and the configuration of a run against it."""
    flags = [f"--model={options.workload}", f"--request-rate={options.rate}", f"--duration={options.seconds}"]
    flags += [f"--warmup={WARMUP_S}"]
    if options.server == "golden":
        with server_of(get(options.workload), capacity_per_s=CAPACITY * options.rate) as server:
            yield LoadConfig.parse([*flags, f"--url={server.url}"])
    else:
        with server_for([LoadConfig.parse(flags)]) as [config]:
            yield config


def main() -> None:
    """Print a line for each comparison that is called different, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=("golden", "triton"), default="golden")
    parser.add_argument("--times", type=int, default=200, help="comparisons")
    parser.add_argument("--workload", default="ranking_tiny")
    parser.add_argument("--rate", type=float, default=1500.0, help="requests/s")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each run")
    options = parser.parse_args()
    counts = {(paired, threshold): Counter[str]() for paired in (True, False) for threshold in THRESHOLDS}
    with serving(options) as config, tempfile.TemporaryDirectory() as scratch:
        meter = Meter(config, Path(scratch))
        meter.measure(ROUNDS * options.times)  # the first run warms what is done once
        print(
            f"{options.times} comparisons on the {options.server} server: {options.workload}, "
            f"{options.rate:g} requests/s, {ROUNDS} and {ROUNDS} runs of {options.seconds:g} s, {', '.join(FIGURES)}",
            flush=True,
        )
        for number in range(options.times):
            sides = compared(meter, number)
            for (paired, threshold), count in counts.items():
                count[outcome(sides, threshold, paired=paired)] += 1
    print("\n".join(report(counts, options.times)))


if __name__ == "__main__":
    main()
