"""Coverage of the intervals of a run's percentiles, on simulated servers whose percentiles are known.

    python -m benchmarks.coverage [--runs 400] [--only NAME] [--out docs/results/coverage.md]

Each cell simulates runs at 1,000 requests/s that begin in equilibrium, cuts them into ten windows and asks
`servemark.stats.order_statistics.ranks`, as a result does. A cell shows how often an interval is given and, of those,
how often the 95 % interval and the 99 % bound hold. The whole table takes about three minutes at 400 runs.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servemark.stats.order_statistics import BOUND_CONFIDENCE, CONFIDENCE, Ranks, ranks
from servemark.stats.percentiles import PERCENTILES, samples_needed

RATE = 1000.0
WINDOWS = 10
COUNTS = (1_500, 5_000, 15_000, 60_000)
RESOLUTION_S = 1e-6
"""That of a result's histogram: values that it cannot tell apart are ties."""
TRUTH_RUNS, TRUTH_REQUESTS = 60, 200_000
BATCH = 4_000_000
"""Requests that are simulated at a time."""
LESS = 0.03
"""Coverage may lie so far below the nominal level."""
SELDOM = 0.02
"""Share of runs below which too few give an interval to know its coverage."""

PAGE = """# Coverage of intervals

This page shows how often a run's intervals hold the true percentile, on simulated servers.

`python -m benchmarks.coverage --runs {runs}`: each cell is {runs} runs at 1,000 requests/s in ten windows. It shows the
coverage of the 95 % interval, that of the 99 % bound, and in brackets the share of the runs that give them. The number
after a server's name is its load.

- {shown} of {judged} cells give an interval in more than {seldom} of the runs. Among those runs its coverage is below
  {interval}, or that of the bound below {bound}, in {short}.
- The cells below: {names}.
- No run can tell of pauses that are rarer than it is long: 1,500 requests are 1.5 s.
- {usual} cells give one in at least half of the runs.

{table}
"""

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
Simulate = Callable[[np.random.Generator, int, int], tuple[Floats, Floats]]
"""Generator, runs and requests -> latencies and times of arrival (s), a row for each run."""


def exponential(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Draw with mean 1 and a coefficient of variation of 1."""
    return rng.exponential(1, shape)


def constant(_rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return ones."""
    return np.ones(shape)


def gamma(cv: float) -> Draw:
    """Return a function that draws from the gamma distribution with mean 1."""
    return lambda rng, shape: rng.gamma(1 / cv**2, cv**2, shape)


def lognormal(cv: float) -> Draw:
    """Return a function that draws from the lognormal distribution with mean 1."""
    squared = math.log(1 + cv**2)
    return lambda rng, shape: rng.lognormal(-squared / 2, math.sqrt(squared), shape)


def sojourn(gaps: Floats, service: Floats) -> Floats:
    """Return the time in a system of one server: Lindley's recursion."""
    steps = np.cumsum(service[:, :-1] - gaps[:, 1:], axis=1)
    steps = np.concatenate([np.zeros((len(steps), 1)), steps], axis=1)
    waits = steps - np.minimum(np.minimum.accumulate(steps, axis=1), 0)
    found: Floats = waits + service
    return found


def queue(gap: Draw, service: Draw, load: float) -> Simulate:
    """Return a queue with one server; 20 relaxation times are left out before it is measured."""
    settled = 200 + int(min(20 * load / (1 - math.sqrt(load)) ** 2, 9000))

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        shape = (runs, settled + requests)
        gaps, took = gap(rng, shape) / RATE, service(rng, shape) * load / RATE
        return sojourn(gaps, took)[:, settled:], np.cumsum(gaps, axis=1)[:, settled:]

    return simulate


def pauses(load: float, length_s: float, every_s: float) -> Simulate:
    """Return an M/D/1 queue whose server stands still for a while at regular times."""
    settled = 2000

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        shape = (runs, settled + requests)
        times = np.cumsum(rng.exponential(1 / RATE, shape), axis=1) + rng.uniform(0, every_s, (runs, 1))
        periods = np.floor(times / every_s)
        # Time that the server has been working, by which the pauses take no time.
        working = periods * (every_s - length_s) + np.maximum(times - periods * every_s - length_s, 0)
        left = working + sojourn(np.diff(working, axis=1, prepend=0), np.full(shape, load / RATE))
        periods = np.floor(left / (every_s - length_s))
        done = periods * every_s + length_s + left - periods * (every_s - length_s)
        return (done - times)[:, settled:], times[:, settled:]

    return simulate


def autoregressive(correlation: float) -> Simulate:
    """Return lognormal latencies of which each depends on the one before."""
    from scipy.signal import lfilter

    settled = 3000

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        noise = rng.normal(size=(runs, settled + requests)) * math.sqrt(1 - correlation**2)
        logs = lfilter([1.0], [1.0, -correlation], noise, axis=1)[:, settled:]
        return np.exp(logs) / RATE, np.tile(np.arange(requests) / RATE, (runs, 1))

    return simulate


def closed_loop(in_flight: int) -> Simulate:
    """Return a closed loop to one exponential server: a request waits for all others that are in flight."""

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        done = np.cumsum(rng.exponential(1 / RATE, (runs, requests + in_flight)), axis=1)
        return done[:, in_flight:] - done[:, :-in_flight], done[:, :-in_flight]

    return simulate


def servers() -> dict[str, Simulate]:
    """Return the simulated servers by name; the number is the load."""
    found: dict[str, Simulate] = {"AR(1) 0.9": autoregressive(0.9), "closed loop of 8": closed_loop(8)}
    for load in (0.3, 0.5, 0.7, 0.9):
        found[f"M/D/1 {load}"] = queue(exponential, constant, load)
        found[f"M/M/1 {load}"] = queue(exponential, exponential, load)
    for load in (0.5, 0.7):
        found[f"lognormal service, cv 2, {load}"] = queue(exponential, lognormal(2), load)
        found[f"gamma arrivals, cv 2, {load}"] = queue(gamma(2), exponential, load)
        found[f"gamma arrivals, cv 4, {load}"] = queue(gamma(4), exponential, load)
    found["pauses of 50 ms each 2 s, 0.3"] = pauses(0.3, 0.05, 2.0)
    found["pauses of 200 ms each 5 s, 0.3"] = pauses(0.3, 0.2, 5.0)
    return found


@dataclass
class Cell:
    """Outcomes of one percentile of one server at one length."""

    runs: int = 0
    given: int = 0
    covered: int = 0
    bounded: int = 0

    def add(self, found: object, below: int, at_most: int) -> None:
        """Count a run; `below` and `at_most` of its requests lie below, and at most at, the true percentile."""
        self.runs += 1
        if isinstance(found, Ranks):
            self.given += 1
            self.covered += found.low <= at_most and found.high > below
            self.bounded += found.bound > below

    @property
    def short(self) -> bool:
        """True if fewer of the intervals or bounds hold than may be."""
        shares = ((self.covered, CONFIDENCE), (self.bounded, BOUND_CONFIDENCE))
        return any(hold < (nominal - LESS) * self.given for hold, nominal in shares)

    @property
    def words(self) -> str:
        """Format the coverage of both, and how often they are given."""
        if not self.given:
            return "not given"
        covered, bounded = self.covered / self.given, self.bounded / self.given
        return f"{covered:.0%}, {bounded:.0%} ({self.given / self.runs:.0%})"


def truths(simulate: Simulate) -> Floats:
    """Return the true percentiles of a server, from twelve million requests."""
    rng = np.random.default_rng(99)
    found = [simulate(rng, 10, TRUTH_REQUESTS)[0].ravel() for _ in range(TRUTH_RUNS // 10)]
    shares = [percentile / 100 for percentile in PERCENTILES]
    return np.asarray(np.quantile(np.concatenate(found), shares), dtype=float)


def runs_of(simulate: Simulate, requests: int, runs: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield the latencies and arrivals of each run."""
    rng, left = np.random.default_rng(requests), runs
    while left:
        many = min(left, max(1, BATCH // (requests + 9000)))
        yield from zip(*simulate(rng, many, requests), strict=True)
        left -= many


def coverage(simulate: Simulate, requests: int, runs: int, true: Floats) -> list[Cell]:
    """Return a cell for each percentile."""
    cells = [Cell() for _ in PERCENTILES]
    limits = np.round(true / RESOLUTION_S)
    for latency, times in runs_of(simulate, requests, runs):
        values = np.round(latency / RESOLUTION_S)
        ordered, span = np.sort(values), times[-1] - times[0]
        windows = np.minimum((times - times[0]) / span * WINDOWS, WINDOWS - 1).astype(int)
        counts = np.bincount(windows, minlength=WINDOWS).tolist()
        for percentile, limit, cell in zip(PERCENTILES, limits, cells, strict=True):
            value = ordered[math.ceil(round(requests * percentile / 100, 9)) - 1]
            above = np.bincount(windows[values > value], minlength=WINDOWS).tolist()
            below, at_most = (int(np.searchsorted(ordered, limit, side=side)) for side in ("left", "right"))
            cell.add(ranks(percentile, above, counts), below, at_most)
    return cells


def page(table: Sequence[tuple[str, int, Sequence[Cell]]], runs: int) -> str:
    """Write the table, and what it comes to."""
    judged = [
        (name, requests, percentile, cell)
        for name, requests, cells in table
        for percentile, cell in zip(PERCENTILES, cells, strict=True)
        if requests >= samples_needed(percentile)
    ]
    shown = [(row, row[-1]) for row in judged if row[-1].given > SELDOM * row[-1].runs]
    short = [row for row, cell in shown if cell.short]
    names = [f"p{percentile:g} of {name}, {requests:,} requests" for name, requests, percentile, _ in short]
    heads = " | ".join(f"p{percentile:g}" for percentile in PERCENTILES)
    rows = "\n".join(_row(name, requests, cells) for name, requests, cells in table)
    return PAGE.format(
        runs=runs,
        shown=len(shown),
        judged=len(judged),
        seldom=f"{SELDOM:.0%}",
        interval=f"{CONFIDENCE - LESS:.0%}",
        bound=f"{BOUND_CONFIDENCE - LESS:.0%}",
        short=len(short),
        names="; ".join(names) or "none",
        usual=sum(cell.given * 2 >= cell.runs for *_, cell in judged),
        table=f"| server | requests | {heads} |\n|---|---:|{'---|' * len(PERCENTILES)}\n{rows}",
    )


def _row(name: str, requests: int, cells: Sequence[Cell]) -> str:
    words = [
        cell.words if requests >= samples_needed(percentile) else "-"
        for percentile, cell in zip(PERCENTILES, cells, strict=True)
    ]
    return f"| {name} | {requests:,} | {' | '.join(words)} |"


def page_parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options of a program that simulates and writes a page."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--out", type=Path, help="page to write; without it the page is printed")
    return parser


def put(text: str, out: Path | None) -> None:
    """Write a page, or print it."""
    if out:
        out.write_text(text)
    else:
        print(text)


def main() -> None:
    """Run the program."""
    parser = page_parser(__doc__)
    parser.add_argument("--only", default="", help="servers whose names contain this")
    options = parser.parse_args()
    table = []
    for name, simulate in servers().items():
        if options.only in name:
            true = truths(simulate)
            table += [(name, count, coverage(simulate, count, options.runs, true)) for count in COUNTS]
    put(page(table, options.runs), options.out)


if __name__ == "__main__":
    main()
