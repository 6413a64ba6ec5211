"""Which figure of a tuning's screen foretells the highest rate: `python -m benchmarks.system.screening`.

Simulated servers with batching, some of which stall now and then, are screened as `servemark tune` does it, and their
highest rate is found by bisection. Printed for each figure: Spearman's rank correlation with that rate, and how much of
the best server's rate the better of the two that screened best has. Nothing is served; it takes minutes of CPU time.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servemark.tuning.bench import SCREEN_S, SCREEN_WARMUP_S
from servemark.tuning.search import MAX_CONCURRENCY, MIN_CONCURRENCY, PROBE_CONCURRENCY

CANDIDATES, SPACES = 12, 4
STALL_SHARE, STALL = 0.01, 6.0
"""One batch in a hundred of a server that stalls takes so many times longer, exponentially distributed."""
SHARING, JITTER = 0.7, 0.1
"""What each further busy instance costs the others, as they share cores; and the noise of a batch's time."""
STEPS = 9

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """A server of several instances that join requests into batches; each sample of a batch adds 0.4 `unit_s`."""

    instances: int
    max_batch: int
    delay_s: float
    unit_s: float
    stalls: bool

    @classmethod
    def draw(cls, unit_s: float, rng: np.random.Generator, *, stalling: bool) -> "Simulated":
        """One of a space like a tuning's."""
        delay_s = float(rng.choice([0, 1e-4, 5e-4, 2e-3, 5e-3]))
        return cls(
            int(rng.choice([1, 2, 4])), 1 << int(rng.integers(6)), delay_s, unit_s, stalling and rng.random() < 0.5
        )

    def batch_s(self, size: int, busy: int, rng: np.random.Generator) -> float:
        """How long a batch takes while so many instances are busy."""
        seconds = self.unit_s * (1 + 0.4 * size) * rng.lognormal(0, JITTER) * (1 + SHARING * (busy - 1))
        stall = STALL * self.unit_s * rng.exponential() if self.stalls and rng.random() < STALL_SHARE else 0.0
        return float(seconds + stall)

    def answer(self, until_s: float, arrivals: Sequence[float], *, closed: bool, rng: np.random.Generator) -> Times:
        """When requests came and how long they took, as rows; in a closed loop each answer is the next arrival."""
        coming, waiting, busy = deque(arrivals), deque[float](), 0
        running: list[tuple[float, int, list[float]]] = []
        found: list[tuple[float, float]] = []
        now, number = 0.0, itertools.count()
        while True:
            while busy < self.instances and waiting:
                if len(waiting) < self.max_batch and now < waiting[0] + self.delay_s:
                    break
                batch = [waiting.popleft() for _ in range(min(len(waiting), self.max_batch))]
                busy += 1
                heapq.heappush(running, (now + self.batch_s(len(batch), busy, rng), next(number), batch))
            done = running[0][0] if running else math.inf
            full = waiting[0] + self.delay_s if waiting and busy < self.instances else math.inf
            comes = coming[0] if coming else math.inf
            now = min(done, full, comes)
            if now > until_s or now == math.inf:
                return np.array(found).reshape(-1, 2)
            if now == done:
                batch, busy = heapq.heappop(running)[2], busy - 1
                found += [(came, now - came) for came in batch]
                waiting.extend([now] * len(batch) if closed else [])
            elif now == comes:
                waiting.append(coming.popleft())

    def screen(self, concurrency: int, seed: int) -> Times:
        """Latencies in s of a screen."""
        rows = self.answer(
            SCREEN_WARMUP_S + SCREEN_S, [0.0] * concurrency, closed=True, rng=np.random.default_rng(seed)
        )
        latencies_s: Times = rows[rows[:, 0] >= SCREEN_WARMUP_S, 1]
        return latencies_s

    def meets(self, rate: float, percentile: float, limit_s: float, seed: int) -> bool:
        """Whether Poisson arrivals at a rate are answered within the objective."""
        rng, last_s = np.random.default_rng(seed), max(8.0, 3000 / rate)
        arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * last_s)))
        rows = self.answer(float(arrivals[-1]) + 1, arrivals.tolist(), closed=False, rng=rng)
        return len(rows) > 0.98 * len(arrivals) and float(np.percentile(rows[:, 1], percentile)) <= limit_s

    def highest_rate(self, around: float, percentile: float, limit_s: float, seed: int) -> float:
        """Found by bisection."""
        low, high = 0.02 * around, 1.3 * around
        for step in range(STEPS):
            rate = math.sqrt(low * high) if step else low
            if self.meets(rate, percentile, limit_s, seed + step):
                low = rate
            elif not step:
                return 0.0
            else:
                high = rate
        return low


def space(percentile: float, limit_s: float, unit_s: float, share: float, seed: int, *, stalling: bool) -> Times:
    """Rank correlation and share of the best rate of two figures, throughput and percentile, in one space."""
    from scipy.stats import spearmanr

    rng = np.random.default_rng(seed)
    servers = [Simulated.draw(unit_s, rng, stalling=stalling) for _ in range(CANDIDATES)]
    throughput = len(servers[0].screen(PROBE_CONCURRENCY, seed)) / SCREEN_S
    concurrency = int(min(max(round(throughput * limit_s / share), MIN_CONCURRENCY), MAX_CONCURRENCY))
    screens = [server.screen(concurrency, 100 * seed + n) for n, server in enumerate(servers)]
    figures = [
        np.array([len(latencies) / SCREEN_S for latencies in screens]),
        np.array([1 / np.percentile(latencies, percentile) for latencies in screens]),
    ]
    rates = np.array([s.highest_rate(figures[0][n], percentile, limit_s, 7 * seed + n) for n, s in enumerate(servers)])
    return np.array([[spearmanr(f, rates)[0], rates[np.argsort(-f)[:2]].max() / rates.max()] for f in figures])


def main() -> None:
    """Print a line for each objective, kind of server and number of requests in flight."""
    print("objective  service ms  stalls  in flight   throughput: rank, best of two   percentile: rank, best of two")
    for (percentile, limit_s, unit_s), stalling, share in itertools.product(
        [(99, 0.02, 0.001), (99, 0.02, 0.0005), (90, 0.5, 0.05)], [False, True], [3.0, 1.5]
    ):
        found = np.mean([space(percentile, limit_s, unit_s, share, s, stalling=stalling) for s in range(SPACES)], 0)
        line = "   ".join(f"{rank:>16.2f}, {best:.3f}     " for rank, best in found)
        print(
            f"p{percentile}:{limit_s * 1e3:<6g} {unit_s * 1e3:>9g}  {'some' if stalling else 'none'}"
            f"  objective / {share:<4g}{line}",
            flush=True,
        )


if __name__ == "__main__":
    main()
