"""How often the rule for `steady_state` calls a stationary server unsteady, and how often it sees one that changes.

    python -m benchmarks.system.steadiness [--runs 1000] > docs/results/steadiness.txt

Simulated, with no server: one first-in-first-out server of constant (D) or exponential (M) service times. Open loop:
Poisson arrivals at 0.1 to 0.9 of its capacity, begun in its steady state, so each alarm is false; judged by the p50
of the windows. Closed loop: 8 in flight, judged by the answers of the windows. The last lines change on purpose.
"""

import argparse
import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from servemark.results.constraints import MAX_WINDOWS, SHORTEST_WINDOW_S, STEADY_REQUESTS
from servemark.stats.trend import drift

Floats = npt.NDArray[np.float64]
Run = Callable[[np.random.Generator], list[float]]

AIM = 0.05
RATES = (2.0, 10.0, 50.0, 200.0)
LENGTHS_S = (3.5, 8.0, 15.0, 60.0, 600.0)
LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
MOST_REQUESTS = 40_000
RELAXATIONS = 10.0
"""So many relaxation times of the queue pass before a run, which begins with whatever queue there is then."""
SERVICES: dict[str, Callable[[np.random.Generator, float, int], Floats]] = {
    "D": lambda _, mean, count: np.full(count, mean),
    "M": lambda rng, mean, count: rng.exponential(mean, count),
}


def latencies(arrivals: Floats, services: Floats) -> Floats:
    """Of a first-in-first-out server that is idle at first (Lindley 1952)."""
    ahead = np.concatenate([[0.0], np.cumsum(services)[:-1]]) - arrivals
    waited: Floats = ahead - np.minimum.accumulate(ahead)
    return waited + services


def open_loop(rng: np.random.Generator, rate: float, length_s: float, *, kind: str, load: float) -> list[float]:
    """The windows' p50 of one run of a stationary server."""
    # Relaxation time of an M/M/1 queue: 1 / (mu (1 - sqrt(load))^2) (Cohen, The Single Server Queue, II.2).
    before_s = min(RELAXATIONS * load / (rate * (1 - load**0.5) ** 2), MOST_REQUESTS / rate)
    arrivals = np.cumsum(rng.exponential(1 / rate, round(1.2 * rate * (before_s + length_s)) + 100))
    found = latencies(arrivals, SERVICES[kind](rng, load / rate, len(arrivals)))
    inside = (arrivals >= before_s) & (arrivals < before_s + length_s)
    return medians(arrivals[inside] - before_s, found[inside], length_s)


def medians(arrivals: Floats, found: Floats, length_s: float) -> list[float]:
    """The p50 of each window that has requests."""
    count = windows(length_s)
    index = (arrivals / length_s * count).astype(int)
    return [float(np.median(found[index == number])) for number in range(count) if (index == number).any()]


def closed_loop(
    rng: np.random.Generator, rate: float, length_s: float, *, kind: str, growth: float = 1.0
) -> list[float]:
    """The windows' answers of a server of so many a second, whose service times grow so much until the end."""
    services = SERVICES[kind](rng, 1 / rate, round(1.5 * rate * length_s) + 100)
    done = rng.random() / rate + np.cumsum(services)
    done = done + (growth - 1) / 2 * done**2 / length_s
    count = windows(length_s)
    return [float(n) for n in np.bincount((done[done < length_s] / length_s * count).astype(int), minlength=count)]


def windows(length_s: float) -> int:
    """As many as a run has."""
    return max(1, min(MAX_WINDOWS, int(length_s / SHORTEST_WINDOW_S)))


def alarms(run: Run, runs: int, *, carry_over: bool) -> float:
    """The share of runs that drift."""
    rng = np.random.default_rng(0)
    return sum(drift(run(rng), carry_over=carry_over) is not None for _ in range(runs)) / runs


def worst_of(run: Callable[..., list[float]], runs: int, *, carry_over: bool) -> list[float]:
    """The most alarms of all rates, for each length."""
    row = []
    for length in LENGTHS_S:
        rates = [rate for rate in RATES if STEADY_REQUESTS <= rate * length <= MOST_REQUESTS]
        row.append(max(alarms(partial(run, rate=rate, length_s=length), runs, carry_over=carry_over) for rate in rates))
    return row


def main() -> None:
    """Print the worst of each length and load, and what is seen of changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print(f"false alarms in % of {runs} runs, the worst of {', '.join(f'{rate:g}' for rate in RATES)} requests/s")
    print(f"{'':26}" + "".join(f"{length:>8g} s" for length in LENGTHS_S))
    worst = 0.0
    for kind, load in itertools.product(SERVICES, LOADS):
        row = worst_of(partial(open_loop, kind=kind, load=load), runs, carry_over=True)
        worst = max(worst, *row)
        print(f"open loop, M/{kind}/1 at {load:<8g}" + "".join(f"{100 * share:>10.1f}" for share in row), flush=True)
    for kind in SERVICES:
        row = worst_of(partial(closed_loop, kind=kind), runs, carry_over=False)
        worst = max(worst, *row)
        print(f"{f'closed loop, {kind}':26}" + "".join(f"{100 * share:>10.1f}" for share in row), flush=True)
    print(f"worst {100 * worst:.1f} %; aim <= {100 * AIM:g} %: {'met' if worst <= AIM else 'NOT MET'}")
    print("seen in % of runs of 15 s at 200 requests/s")
    for kind, growth in itertools.product(SERVICES, (1.2, 1.5, 2.0)):
        slower = partial(closed_loop, kind=kind, rate=200.0, length_s=15.0, growth=growth)
        share = alarms(slower, runs, carry_over=False)
        print(f"closed loop, {kind}, service times grow to {growth:g} times: {100 * share:.0f}", flush=True)
    for growth in (1.2, 1.5, 2.0):
        share = alarms(partial(changing, load=0.3, growth=growth), runs, carry_over=True)
        print(f"open loop, M/D/1 at 0.3, service times grow to {growth:g} times: {100 * share:.0f}", flush=True)
    for load in (1.05, 1.2):
        share = alarms(partial(changing, load=load, growth=1.0), runs, carry_over=True)
        print(f"open loop, M/D/1 at {load:g} of its capacity: {100 * share:.0f}", flush=True)


def changing(rng: np.random.Generator, load: float, growth: float) -> list[float]:
    """An open loop of 200/s for 15 s, after a warm-up of 3 s from an empty queue; service times grow so much."""
    rate, before_s, length_s = 200.0, 3.0, 15.0
    arrivals = np.cumsum(rng.exponential(1 / rate, round(1.5 * rate * (before_s + length_s))))
    services = load / rate * (1 + (growth - 1) * np.clip((arrivals - before_s) / length_s, 0, 1))
    found = latencies(arrivals, services)
    inside = (arrivals >= before_s) & (arrivals < before_s + length_s)
    return medians(arrivals[inside] - before_s, found[inside], length_s)


if __name__ == "__main__":
    main()
