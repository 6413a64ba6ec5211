"""Comparing two things on a machine that drifts: interleaved pairs, for `servemark.stats.ratios.ratio_of_pairs`."""

from collections.abc import Callable, Iterator
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


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
