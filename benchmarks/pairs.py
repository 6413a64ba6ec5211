"""Comparing two things on a machine that drifts: interleaved pairs, whose ratio is servemark.ratios.ratio_of_pairs."""

from collections.abc import Callable


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
