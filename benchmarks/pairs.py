"""Comparing two things on a machine that drifts: interleaved pairs, and the ratio with its interval."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of the pairs' ratios with its 95 % bootstrap interval over pairs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        note = "" if self.low > 1 or self.high < 1 else ", not significant"
        return f"{self.value:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}{note})"


def interleave(first: Callable[[], float], second: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Measure A B, then B A, and so on, so that drift hits both alike."""
    found = []
    for index in range(pairs):
        if index % 2 == 0:
            a, b = first(), second()
        else:
            b, a = second(), first()
        print(f"pair {index + 1}/{pairs}: {a:.6g} against {b:.6g}, ratio {a / b:.3f}", flush=True)
        found.append((a, b))
    return found


def ratio(found: list[tuple[float, float]]) -> Ratio:
    """The ratio of the first to the second over all pairs."""
    logs = np.log([a / b for a, b in found])
    resampled = np.random.default_rng(0).choice(logs, size=(RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.percentile(resampled, [2.5, 97.5]))
    return Ratio(float(np.exp(logs.mean())), float(low), float(high))
