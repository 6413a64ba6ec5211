"""Servers whose percentiles are known, and how often a run's intervals hold them. 08abed81 has the study of all."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from servemark.stats.percentiles import PERCENTILES, Ranks, ranks

RATE = 1000.0
WINDOWS = 10
RESOLUTION_S = 1e-6
"""That of a result's histogram: values that it cannot tell apart are ties."""

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
Simulate = Callable[[np.random.Generator, int, int], tuple[Floats, Floats]]
"""Generator, runs and requests -> latencies and times of arrival (s), a row for each run."""


def _exponential(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.exponential(1, shape)


def _constant(_rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.ones(shape)


def _gamma(cv: float) -> Draw:
    return lambda rng, shape: rng.gamma(1 / cv**2, cv**2, shape)


def _queue(gap: Draw, service: Draw, load: float) -> Simulate:
    """Return a queue with one server, by Lindley's recursion; 20 relaxation times are left out first."""
    settled = 200 + int(min(20 * load / (1 - math.sqrt(load)) ** 2, 9000))

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        shape = (runs, settled + requests)
        gaps, took = gap(rng, shape) / RATE, service(rng, shape) * load / RATE
        steps = np.cumsum(took[:, :-1] - gaps[:, 1:], axis=1)
        steps = np.concatenate([np.zeros((len(steps), 1)), steps], axis=1)
        waits = steps - np.minimum(np.minimum.accumulate(steps, axis=1), 0)
        return (waits + took)[:, settled:], np.cumsum(gaps, axis=1)[:, settled:]

    return simulate


def _closed_loop(in_flight: int) -> Simulate:
    """Return a closed loop to one exponential server: a request waits for all others that are in flight."""

    def simulate(rng: np.random.Generator, runs: int, requests: int) -> tuple[Floats, Floats]:
        done = np.cumsum(rng.exponential(1 / RATE, (runs, requests + in_flight)), axis=1)
        return done[:, in_flight:] - done[:, :-in_flight], done[:, :-in_flight]

    return simulate


SERVERS: dict[str, Simulate] = {
    "M/M/1 0.5": _queue(_exponential, _exponential, 0.5),
    "M/D/1 0.7": _queue(_exponential, _constant, 0.7),
    "gamma arrivals, cv 4, 0.5": _queue(_gamma(4), _exponential, 0.5),
    "closed loop of 8": _closed_loop(8),
}
"""The number is the load."""


def coverage(simulate: Simulate, requests: int, runs: int) -> list[tuple[int, int]]:
    """Return for each percentile how many runs give an interval, and how many of those hold the true value."""
    rng = np.random.default_rng(99)
    many = np.concatenate([simulate(rng, 10, 200_000)[0].ravel() for _ in range(2)])
    limits = np.round(np.quantile(many, [percentile / 100 for percentile in PERCENTILES]) / RESOLUTION_S)
    given, held = np.zeros(len(PERCENTILES), int), np.zeros(len(PERCENTILES), int)
    for latency, times in zip(*simulate(np.random.default_rng(requests), runs, requests), strict=True):
        values = np.round(latency / RESOLUTION_S)
        ordered, span = np.sort(values), times[-1] - times[0]
        windows = np.minimum((times - times[0]) / span * WINDOWS, WINDOWS - 1).astype(int)
        counts = np.bincount(windows, minlength=WINDOWS).tolist()
        for place, (percentile, limit) in enumerate(zip(PERCENTILES, limits, strict=True)):
            value = ordered[math.ceil(round(requests * percentile / 100, 9)) - 1]
            found = ranks(percentile, np.bincount(windows[values > value], minlength=WINDOWS).tolist(), counts)
            if isinstance(found, Ranks):
                below, at_most = (int(np.searchsorted(ordered, limit, side=side)) for side in ("left", "right"))
                given[place] += 1
                held[place] += found.low <= at_most and found.high > below
    return [*zip(given.tolist(), held.tolist(), strict=True)]
