"""Accuracy of `--max-rate` on servers whose highest rate is known by theory.

    python -m benchmarks.system.max_rate                  # a hundred searches of each queue on a simulated clock
    python -m benchmarks.system.max_rate --real 5         # real ones, against the golden server as these queues
    python -m benchmarks.system.max_rate --real 5 --busy  # beside a process that takes all it can get of a core

The true rate of M/M/1 and M/D/1 within an objective on p99 follows from the distribution of the time in system
(`benchmarks.rig.queues`). Printed for each queue: in how many searches the answer lies within 5 % of it, in how many
the 95 % interval holds it, and how many runs a search took. A search that says that it cannot tell is counted apart.
"""

import argparse
import contextlib
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.rig.aims import Aim
from benchmarks.rig.queues import Queue
from servemark.results.schema.search import MaxRateSearch
from servemark.search.max_rate.point import Point
from servemark.search.max_rate.search import START_SHARE, TOLERANCE, Bounds, MaxRate, lowest_rate, search
from servemark.workload import get
from tests.support.locust_run import server_of

PERCENTILE = 99.0
WARMUP_S = 3.0
WORKLOAD = "ranking_tiny"
CLOSE = Aim(least=0.95)
"""The share of searches whose answer lies within the tolerance."""


@dataclass(frozen=True)
class Case:
    """A queue, its objective on p99, and how long the runs of a search are."""

    queue: Queue
    limit_s: float
    duration_s: float

    @property
    def true_rate(self) -> float:
        """Return the rate that a search should find, in requests/s."""
        return self.queue.highest_rate(PERCENTILE, self.limit_s)

    def __str__(self) -> str:
        at = f"{self.queue.capacity:g}/s, p99 {self.limit_s * 1e3:g} ms, runs of {self.duration_s:g} s"
        return f"{self.queue.name} {at}"


CASES = (
    Case(Queue(1000, exponential=True), 0.02, 30),
    Case(Queue(1000, exponential=True), 0.05, 30),
    Case(Queue(1000, exponential=False), 0.01, 15),
    Case(Queue(1000, exponential=False), 0.05, 15),
    Case(Queue(4000, exponential=True), 0.005, 15),
    Case(Queue(4000, exponential=False), 0.005, 15),
)
REAL = (CASES[0], CASES[2])


@dataclass(frozen=True)
class Answer:
    """Answer of a search."""

    rate: float | None
    interval: tuple[float, float] | None
    confirmed: bool
    runs: int

    @classmethod
    def of(cls, found: MaxRateSearch) -> "Answer":
        """Read what a result holds."""
        low, high = found["ci95"] or (None, None)
        interval = (low, high) if low is not None and high is not None else None
        return cls(found["rate"], interval, found["confirmed"], len(found["points"]))


def simulated(case: Case, rng: np.random.Generator) -> MaxRate:
    """One search on a simulated clock, from where a closed loop of eight would start it."""
    lowest = lowest_rate(PERCENTILE, case.duration_s)
    start = START_SHARE * case.queue.capacity
    return search(run_of(case, rng), Bounds.around(start, lowest))


def run_of(case: Case, rng: np.random.Generator) -> Callable[[float], Point]:
    """Runs against the queue that find what a real run would."""
    allowed = round(1 - PERCENTILE / 100, 12)

    def measure(rate: float) -> Point:
        seen = case.queue.latencies_s(rate, case.duration_s, WARMUP_S, rng)
        over = int((seen > case.limit_s).sum())
        p99_ms = float(np.percentile(seen, PERCENTILE)) * 1e3
        met = over <= allowed * len(seen)
        return Point(
            rate, latency_ms=p99_ms, objective="met" if met else "missed",
            over=over, requests=len(seen), allowed=allowed,
        )  # fmt: skip

    return measure


def real(case: Case, seed: int) -> MaxRateSearch:
    """One search with real runs against the golden server."""
    exponential = case.queue.exponential
    with (
        server_of(get(WORKLOAD), capacity_per_s=case.queue.capacity, exponential=exponential) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        flags = ["-u", server.url, "--max-rate", "--slo", f"p99:{case.limit_s * 1e3:g}", "--json", "--out", folder]
        flags += ["--duration", f"{case.duration_s:g}", "--warmup", f"{WARMUP_S:g}", "--seed", str(1000 * seed)]
        flags += ["--model-repository", f"{folder}/none"]
        command = [sys.executable, "-m", "servemark", "run", WORKLOAD, *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    found: MaxRateSearch = json.loads(done.stdout)["max_rate"]
    return found


def row(case: Case, answers: Sequence[Answer]) -> str:
    """One line of the table."""
    true = case.true_rate
    told = [answer for answer in answers if answer.confirmed and answer.rate]
    close = sum(abs((answer.rate or 0) / true - 1) <= TOLERANCE for answer in told)
    known = [answer for answer in answers if answer.rate]
    all_close = sum(abs((answer.rate or 0) / true - 1) <= TOLERANCE for answer in known)
    intervals = [answer.interval for answer in answers if answer.interval]
    held = sum(low <= true <= high for low, high in intervals)
    errors = [abs((answer.rate or 0) / true - 1) for answer in known]
    error = f"{np.quantile(errors, 0.95):.1%}" if errors else "-"
    runs = [answer.runs for answer in answers]
    share = close / len(told) if told else 1.0
    return (
        f"{case!s:<48} {true:>7,.1f}/s  {all_close:>3} of {len(known):<3}  {close:>3} of {len(told):<3} "
        f"{'yes' if share >= (CLOSE.least or 0) else 'NO':<3}  {error:>6}  {held:>3} of {len(intervals):<3}  "
        f"{np.mean(runs):4.1f}, {max(runs):>2}"
    )


COLUMNS = ("within 5 %", "of those told", "95th", "in interval", "runs, most")
HEADER = "{:<48} {:>9}  {:<10}  {:<14}  {:>6}  {:<10}  {}".format("queue", "true", *COLUMNS)


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Another process that never sleeps, where it is wanted."""
    if not wanted:
        yield
        return
    spinner = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    spinner.start()
    try:
        yield
    finally:
        spinner.kill()
        spinner.join()


def _spin() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=100, metavar="N", help="of each queue on a simulated clock")
    parser.add_argument("--real", type=int, default=0, metavar="N", help="real searches of each of two queues instead")
    parser.add_argument("--busy", action="store_true", help="beside a process that never sleeps")
    options = parser.parse_args()
    print(HEADER)
    with busy(options.busy):
        for case in REAL if options.real else CASES:
            if options.real:
                found = []
                for seed in range(options.real):
                    found.append(real(case, seed))
                    print(f"  {found[-1]['rate']} {found[-1]['ci95']}: {found[-1]['reason']}", file=sys.stderr)
                answers = [Answer.of(each) for each in found]
            else:
                searches = range(options.searches)
                answers = [Answer.of(simulated(case, np.random.default_rng(seed)).to_dict()) for seed in searches]
            print(row(case, answers), flush=True)


if __name__ == "__main__":
    main()
