"""Queues whose latency is known by theory, and searches of them on a simulated clock.

6c607af2 has the study of many searches, and of real ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from servemark.search.points import Point
from servemark.search.posterior import START_SHARE, Bounds, MaxRate, lowest_rate, search

_DIGITS = 80
"""Of Crommelin's sum, whose terms cancel: a waiting time of 100 services needs half of them."""
_BISECTIONS = 60
PERCENTILE = 99.0
"""Of a case's objective."""
WARMUP_S = 3.0


@dataclass(frozen=True)
class Queue:
    """One first-in-first-out server of `capacity` requests/s under Poisson arrivals."""

    capacity: float
    exponential: bool
    """Its service time, else constant: M/M/1, else M/D/1."""

    @property
    def name(self) -> str:
        """Kendall's."""
        return "M/M/1" if self.exponential else "M/D/1"

    def share_over(self, rate: float, limit_s: float) -> float:
        """The share of requests whose time from arrival to answer exceeds a limit in the steady state."""
        if self.exponential:
            return math.exp(-(self.capacity - rate) * limit_s)
        return 1 - self._waits_at_most(rate, limit_s - 1 / self.capacity)

    def _waits_at_most(self, rate: float, wait_s: float) -> float:
        """M/D/1's distribution of the waiting time.

        C. D. Crommelin, Delay probability formulae when the holding times are constant, Post Office Electrical
        Engineers' Journal 25, 1932; H. C. Tijms, A First Course in Stochastic Models, Wiley 2003, section 9.6.
        """
        if wait_s < 0:
            return 0.0
        with localcontext() as context:
            context.prec = _DIGITS
            arrivals, wait, service = Decimal(rate), Decimal(wait_s), 1 / Decimal(self.capacity)
            total, factorial = Decimal(0), 1
            for number in range(int(wait / service) + 1):
                factorial *= max(number, 1)
                exponent = arrivals * (number * service - wait)
                total += exponent**number / factorial * (-exponent).exp() if number else (-exponent).exp()
            return float((1 - arrivals * service) * total)

    def highest_rate(self, percentile: float, limit_s: float) -> float:
        """The rate at which the percentile of the latency is the limit."""
        allowed, low, high = 1 - percentile / 100, 0.0, self.capacity
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.share_over(middle, limit_s) <= allowed else (low, middle)
        return low

    def latencies_s(
        self, rate: float, duration_s: float, warmup_s: float, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """Return the latencies that a run of a load generator would see of a server that was idle before."""
        count = rng.poisson(rate * (warmup_s + duration_s))
        arrivals = np.sort(rng.uniform(0, warmup_s + duration_s, count))
        services = rng.exponential(1, count) if self.exponential else np.ones(count)
        ends = np.cumsum(services / self.capacity)
        # A request starts when it has come and the one before it has left: Lindley's recursion as a running maximum.
        waits_for = np.maximum.accumulate(arrivals - (ends - services / self.capacity))
        latencies: npt.NDArray[np.float64] = (waits_for + ends - arrivals)[arrivals >= warmup_s]
        return latencies


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
