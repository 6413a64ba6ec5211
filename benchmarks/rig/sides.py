"""Rounds of several generators in turns, each on the same server and the same cores."""

from collections.abc import Callable, Mapping

from benchmarks.rig.load import Figures

Side = Callable[[], Figures]


def rounds(sides: Mapping[str, Side], count: int, seldom: int | None = None) -> dict[str, list[Figures]]:
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
