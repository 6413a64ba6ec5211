"""Interleaved rounds of things that are compared on a machine that drifts, and what is aimed at in their ratios."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from servemark.stats.ratios import ratio_of_pairs

A = TypeVar("A")
B = TypeVar("B")


class Figures(NamedTuple):
    """One run, by the generator's own report."""

    requests_per_s: float
    p50_ms: float
    cpu_us: float
    """CPU of the generator for each request in µs, from outside: see `rig.load`."""


Side = Callable[[], Figures]


def alternate(first: Callable[[], A], second: Callable[[], B], pairs: int) -> Iterator[tuple[A, B]]:
    """Measure A B, then B A, and so on, so that drift hits both alike; each pair as soon as it is there."""
    for index in range(pairs):
        if index % 2 == 0:
            a, b = first(), second()
        else:
            b, a = second(), first()
        yield a, b


def interleave(first: Callable[[], float], second: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Measure one figure of both in turns and print each pair."""
    found = []
    for a, b in alternate(first, second, pairs):
        found.append((a, b))
        print(f"pair {len(found)}/{pairs}: {a:.6g} against {b:.6g}, ratio {a / b:.3f}", flush=True)
    return found


def rounds(sides: Mapping[str, Side], count: int, seldom: int) -> dict[str, list[Figures]]:
    """Measure every side once a round, forwards and backwards in turns, and print each as soon as it is there.

    The last sides beyond the first `seldom` take part in the first two rounds only, without an interval.
    """
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    for number in range(count):
        names = list(sides)[: None if number < 2 else seldom]
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(sides[name]())
        shown = ", ".join(f"{name} {_shown(found[name][-1])}" for name in names)
        print(f"round {number + 1}/{count}: {shown}", flush=True)
    return found


def _shown(figures: Figures) -> str:
    return f"{figures.requests_per_s:.0f}/s p50 {figures.p50_ms:.3f} ms {figures.cpu_us:.1f} µs"


@dataclass(frozen=True)
class Aim:
    """Bounds of a figure; one without bounds is shown only."""

    least: float | None = None
    most: float | None = None

    def met(self, value: float) -> bool:
        """Return True if a value keeps both bounds; NaN keeps none."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def verdict(self, value: float) -> str:
        """The aim and what came of it, in words."""
        if self.least is not None and self.most is not None:
            bounds = f"{self.least:.4g} to {self.most:.4g}"
        elif self.least is not None:
            bounds = f">= {self.least:.4g}"
        elif self.most is not None:
            bounds = f"<= {self.most:.4g}"
        else:
            return "no aim"
        return f"aim {bounds}: {'met' if self.met(value) else 'NOT MET'}"


NONE = Aim()


@dataclass(frozen=True)
class Claim:
    """The ratio of a figure of servemark and of a peer, and its aim; `figure` is a field of Figures."""

    figure: str
    aim: Aim = NONE
    peer: str = "perf_analyzer"

    def report(self, pairs: Sequence[tuple[Figures, Figures]], baseline: Path | None = None) -> str:
        """Return one line; an aim is for the peer, not for another checkout as the baseline."""
        ratio = ratio_of_pairs([(getattr(ours, self.figure), getattr(theirs, self.figure)) for ours, theirs in pairs])
        if baseline:
            return f"{self.figure} ratio servemark / baseline: {ratio}"
        return f"{self.figure} ratio servemark / {self.peer}: {ratio}; {self.aim.verdict(ratio.value)}"
