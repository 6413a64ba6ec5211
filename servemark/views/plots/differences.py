"""Figures of B to those of A, as ratios with their intervals."""

from servemark.results.schema.comparison import SavedComparison, Subject
from servemark.views.drawing.axis import logarithmic
from servemark.views.drawing.plot import Bar, bars
from servemark.views.page.blocks import Figure, Table


def ratios(subject: Subject, found: SavedComparison) -> list[Figure]:
    """Every figure that has a ratio, on an axis of equal ratios; none where none has."""
    known = [(each["figure"], each["reading"], ratio) for each in subject["differences"] if (ratio := each["ratio"])]
    if not known:
        return []
    drawn = [
        Bar(
            f"{name}: {reading}", f"{ratio['value']:.3f}", ratio["value"], ratio["ci95"], muted=not ratio["significant"]
        )
        for name, reading, ratio in known
    ]
    limits = [1 / (1 + found["threshold"]), 1 + found["threshold"]]
    values = [1.0, *limits, *(end for bar in drawn for end in (bar.value, *(bar.interval or ())))]
    name = f"Ratio of {found['b']} to {found['a']}"
    rows = [
        [bar.words, bar.shown, " to ".join(f"{end:.3f}" for end in bar.interval) if bar.interval else "-"]
        for bar in drawn
    ]
    note = f"Lines: {found['confidence'] * 100:.3g} % intervals. Grey: chance may explain the difference."
    figure = bars(name, logarithmic("ratio", values), drawn, origin=None)
    return [Figure(name, figure, Table(["figure", "ratio", "interval"], rows), note=note)]
