"""How well `--warmup auto` cuts a known transient, and how long it takes where there is none.

    python -m benchmarks.system.warm_up [--runs 60] > docs/results/warm_up.txt

Simulated, with no server and no clock: one first-in-first-out server of constant (D) or exponential (M) service times,
from idle, in an open loop of Poisson arrivals or a closed loop of 8. Each run is made twice from the same random
numbers: with a transient and without one. The transient is over once no latency differs by more than 10 % between the
two; it is cut where the measured 15 s begin after that. Bias: a percentile of the measured 15 s with the transient over
the same without it, of the run that is worse than 95 of 100.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.load.warm_up import WINDOW_NS, WarmUp, longest_s

Floats = npt.NDArray[np.float64]

DURATION_S = 15.0
FIXED_S = 5.0
DIFFERS = 1.1
BADLY = 95.0
"""The bias is that of the run which is worse than so many percent of all."""
IN_FLIGHT = 8

Slower = Callable[[int, float], float]
"""How many times as long the request with this number takes that is served at this time (s)."""

TRANSIENTS: dict[str, Slower] = {
    "none": lambda _number, _s: 1.0,
    "cold: the first 20 requests take 10 times as long": lambda number, _s: 10.0 if number < 20 else 1.0,
    "5 times as long, decays with 0.2 s": lambda _number, s: 1 + 4 * math.exp(-s / 0.2),
    "5 times as long, decays with 0.5 s": lambda _number, s: 1 + 4 * math.exp(-s / 0.5),
    "5 times as long, decays with 2 s": lambda _number, s: 1 + 4 * math.exp(-s / 2),
    "3 times as long until 1 s": lambda _number, s: 3.0 if s < 1 else 1.0,
    "3 times as long until 3 s": lambda _number, s: 3.0 if s < 3 else 1.0,
}


@dataclass(frozen=True)
class Loop:
    """A load of `rate` requests/s on one server: open at this share of its capacity, or closed (load 1)."""

    kind: str
    rate: float
    load: float

    def __str__(self) -> str:
        if self.load == 1:
            return f"closed loop, {self.kind}, {self.rate:g}/s"
        return f"open loop, M/{self.kind}/1 at {self.load:g}, {self.rate:g}/s"


LOOPS = [Loop(kind, rate, load) for load in (0.5, 0.8, 1) for kind in "DM" for rate in (50.0, 200.0)]


@dataclass(frozen=True)
class Run:
    """When each request was due and answered (s)."""

    due: Floats
    done: Floats

    @property
    def latency(self) -> Floats:
        """In s."""
        return self.done - self.due

    def percentile(self, start_s: float, percentile: float) -> float:
        """Of what was due in the measured seconds after a start."""
        inside = (self.due >= start_s) & (self.due < start_s + DURATION_S)
        return float(np.percentile(self.latency[inside], percentile))

    def warmed_s(self) -> tuple[float, bool]:
        """How long `--warmup auto` lasts, and whether it found the run steady."""
        most_s = longest_s(DURATION_S)
        warm_up = WarmUp(0, most_s)
        done = np.round(self.done * 1e9).astype(np.int64)
        warm_up.take(done, np.round(self.latency * 1e9).astype(np.int64))
        for now in range(WINDOW_NS, int(most_s * 1e9), WINDOW_NS):
            if warm_up.is_over(now, self._waiting_since(done, now)):
                return now / 1e9, True
        bound = int(most_s * 1e9)
        return most_s, warm_up.found(bound, self._waiting_since(done, bound), bound).steady is True

    def _waiting_since(self, done: npt.NDArray[np.int64], now: int) -> int | None:
        """First in, first out: the oldest request in flight is the first that is not answered."""
        since = int(self.due[np.searchsorted(done, now, side="right")] * 1e9)
        return since if since <= now else None


def simulate(loop: Loop, slower: Slower, seed: int) -> Run:
    """One run; equal seeds have equal random numbers whatever the transient."""
    rng = np.random.default_rng(seed)
    count = int(1.2 * loop.rate * (longest_s(DURATION_S) + DURATION_S + 5)) + 100
    gaps, services = rng.exponential(1 / loop.rate, count), np.full(count, loop.load / loop.rate)
    if loop.kind == "M":
        services *= rng.exponential(1, count)
    arrivals = np.cumsum(gaps).tolist()
    due: list[float] = []
    done: list[float] = []
    free = 0.0
    for number, service in enumerate(services.tolist()):
        # A closed loop's request comes with the answer of the one that it replaces.
        came = arrivals[number] if loop.load < 1 else (0.0 if number < IN_FLIGHT else done[number - IN_FLIGHT])
        begun = max(free, came)
        free = begun + service * slower(number, begun)
        due.append(came)
        done.append(free)
    return Run(np.array(due), np.array(done))


def over_s(run: Run, without: Run) -> float:
    """When the transient is over."""
    ratio = run.latency / without.latency
    differs = np.flatnonzero((ratio > DIFFERS) | (ratio < 1 / DIFFERS))
    return float(run.due[differs[-1]]) if len(differs) else 0.0


@dataclass(frozen=True)
class Row:
    """What is said of a load and a transient."""

    cut: float
    cut_by_fixed: float
    steady: float
    seconds: float
    bias: dict[str, tuple[float, float]]
    """Of p50 and p99, by the kind of warm-up."""


def row(loop: Loop, slower: Slower, runs: int) -> Row:
    """Simulate so many runs."""
    cut, cut_by_fixed, steady, seconds = [], [], [], []
    ratios: dict[str, list[tuple[float, float]]] = {"auto": [], "fixed": []}
    for seed in range(runs):
        run, without = simulate(loop, slower, seed), simulate(loop, TRANSIENTS["none"], seed)
        warmed, found = run.warmed_s()
        end = over_s(run, without)
        cut.append(warmed >= end)
        cut_by_fixed.append(end <= FIXED_S)
        steady.append(found)
        seconds.append(warmed)
        for name, start in (("auto", warmed), ("fixed", FIXED_S)):
            p50, p99 = (run.percentile(start, p) / without.percentile(start, p) - 1 for p in (50, 99))
            ratios[name].append((p50, p99))
    bias = {}
    for name, pairs in ratios.items():
        p50, p99 = np.percentile(np.array(pairs), BADLY, axis=0).tolist()
        bias[name] = (p50, p99)
    shares = [float(np.mean(each)) for each in (cut, cut_by_fixed, steady, seconds)]
    return Row(shares[0], shares[1], shares[2], shares[3], bias)


def main() -> None:
    """Print a block for each transient."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    print(f"{runs} runs of each; auto is bounded by {longest_s(DURATION_S):g} s, fixed is {FIXED_S:g} s")
    for name, slower in TRANSIENTS.items():
        print(f"\n{name}\n{'':36}    cut %   found %  seconds     bias of p50, %    bias of p99, %")
        print(f"{'':36}auto fixed    auto     auto      auto     fixed     auto     fixed")
        for loop in LOOPS:
            found = row(loop, slower, runs)
            shares = f"{100 * found.cut:4.0f}{100 * found.cut_by_fixed:6.0f}{100 * found.steady:8.0f}"
            (p50, p99), (fixed_p50, fixed_p99) = found.bias["auto"], found.bias["fixed"]
            bias = f"{100 * p50:10.1f}{100 * fixed_p50:10.1f}{100 * p99:9.1f}{100 * fixed_p99:10.1f}"
            print(f"{loop!s:36}{shares}{found.seconds:9.1f}{bias}", flush=True)


if __name__ == "__main__":
    main()
