"""Axes: where a value lies, and the round numbers beside it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_STEPS = (
    (1,),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9),
)
"""Ticks of a decade, from few to many."""
_MIN_TICKS, _MAX_TICKS = 4, 7
_MARGIN = 1.1
"""Factor by which a logarithmic axis extends beyond its values."""
_MAX_TAIL_TICKS = 4


@dataclass(frozen=True)
class Axis:
    """A range of values on a scale, with its ticks as (value, label)."""

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    scale: Callable[[float], float] = float

    def share(self, value: float) -> float:
        """Return a value's position between the ends, 0 to 1; values beyond an end lie at it."""
        low, high = self.scale(self.low), self.scale(self.high)
        inside = min(max(value, self.low), self.high)
        return (self.scale(inside) - low) / (high - low)


def linear(title: str, values: Iterable[float | None], *, from_zero: bool = True) -> Axis:
    """An axis of equal steps around the values; from zero unless told otherwise."""
    known = [value for value in values if value is not None] or [0.0]
    low, high = min(known), max(known)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (0.0, 1.0) if not low else (low - abs(low) / 2, high + abs(high) / 2)
    step = _step(high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(number * step, 12) for number in range(first, last + 1)]
    return Axis(title, ticks[0], ticks[-1], tuple((tick, label(tick)) for tick in ticks))


def logarithmic(title: str, values: Iterable[float | None]) -> Axis:
    """An axis of equal ratios around the values above 0."""
    known = [value for value in values if value is not None and value > 0] or [1.0]
    low, high = min(known) / _MARGIN, max(known) * _MARGIN
    ticks = tuple((tick, label(tick)) for tick in round_numbers(low, high))
    return Axis(f"{title} (logarithmic)", low, high, ticks, math.log10)


def percentiles(title: str, count: int) -> Axis:
    """HdrHistogram's axis: each further nine of the percentile takes the same room.

    Values are shares below 1; the number of samples decides the last one.
    """
    last = 1 - 1 / max(count, 10)
    nines = math.floor(-math.log10(1 - last) + 1e-9)
    ticks = [0.5 if nines < _MAX_TAIL_TICKS else 0.0, *(1 - 10.0**-number for number in range(1, nines + 1))]
    return Axis(title, 0.0, last, tuple((tick, f"{100 * tick:.10g}%") for tick in ticks), _nines)


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two bounds above 0, some five of them, for a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in _STEPS:
        inside = [
            tick for decade in decades for step in steps if low <= (tick := round(step * 10.0**decade, 9)) <= high
        ]
        if len(inside) > _MAX_TICKS:
            return inside[:: math.ceil(len(inside) / _MAX_TICKS)]
        if len(inside) >= _MIN_TICKS:
            return inside
    # Over so small a part of a decade the axis is nearly linear.
    step = _step(high - low)
    return [round(number * step, 9) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def label(value: float) -> str:
    """A tick's number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def _step(span: float) -> float:
    least = span / (_MAX_TICKS - 1)
    unit = 10.0 ** math.floor(math.log10(least))
    return next(step for step in (unit, 2 * unit, 5 * unit, 10 * unit) if step >= least * (1 - 1e-9))


def _nines(share: float) -> float:
    return -math.log10(1 - share)
