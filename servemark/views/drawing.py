"""A plot as one SVG element whose colours are the page's: its axes, with round numbers, and what lies between them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET  # writes only: nothing is parsed

from markupsafe import Markup

from servemark.output import printable

WIDTH, HEIGHT = 560, 302
RIGHT = 16
"""Room on the right of what is drawn."""
_LEFT, _TOP, _BOTTOM = 58, 42, 48
_CHARACTER = 9
"""Width of a character on a phone, where words are larger."""
_LEVELS = 8
"""Shades of a heatmap."""
COLOURS = 9
BAD, GOOD = -1, -2
"""Colours with a meaning: failed, not met; met."""
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
Point = tuple[float, float | None]
Level = tuple[str, float]
"""A limit: its words, and its value."""


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
    """An axis of equal steps around the values; from zero unless `from_zero` is False."""
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
    labelled = tuple((tick, f"{100 * tick:.10g}%") for tick in ticks)
    return Axis(title, 0.0, last, labelled, lambda share: -math.log10(1 - share))


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


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    words: str
    colour: str
    form: str = "line"


class Plot:
    """Draws marks in the order in which they are asked for. `name` is what a screen reader says of it."""

    def __init__(self, name: str, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y
        self._bottom = HEIGHT - _BOTTOM
        self._svg = root_of(name, HEIGHT)
        self.keys: list[Key] = []
        for value, words in y.ticks:
            at = self._at_y(value)
            add(self._svg, "path", {"class": "grid", "d": f"M{_LEFT} {at:.1f}H{WIDTH - RIGHT}"})
            text(self._svg, _LEFT - 6, at + 4, words, "end")
        for value, words in x.ticks:
            at = self._at_x(value)
            add(self._svg, "path", {"class": "grid", "d": f"M{at:.1f} {_TOP}V{self._bottom}"})
            # The first stays beside the words of the vertical axis, which are as large on a phone.
            text(self._svg, min(max(at, _LEFT + 10), WIDTH - RIGHT - 8), self._bottom + 17, words, "middle")
        text(self._svg, 4, 14, y.title, "start", "axis")
        text(self._svg, WIDTH - RIGHT, HEIGHT - 8, x.title, "end", "axis")

    def line(self, points: Iterable[Point], words: str, colour: int, *, stepped: bool = False) -> None:
        """Values joined; a gap where one is not known. `stepped`: each holds until the next."""
        path, pen = [], "M"
        for x, y in points:
            if y is None:
                pen = "M"
                continue
            at_x, at_y = self._at_x(x), self._at_y(y)
            path.append(f"{pen}{at_x:.1f} {at_y:.1f}" if pen == "M" or not stepped else f"H{at_x:.1f}V{at_y:.1f}")
            pen = "L"
        add(self._svg, "path", {"class": f"line {colour_of(colour)}", "d": "".join(path)})
        if words:
            self.keys.append(Key(words, colour_of(colour)))

    def dots(
        self, points: Iterable[tuple[float, float | None, str]], words: str, colour: int, form: str = "dot"
    ) -> None:
        """Values with their words under the pointer; the form `hollow` is for those that may not be quoted."""
        known = [(x, y, said) for x, y, said in points if y is not None]
        for x, y, said in known:
            place = {"cx": f"{self._at_x(x):.1f}", "cy": f"{self._at_y(y):.1f}", "r": "4"}
            add(add(self._svg, "circle", {"class": f"{form} {colour_of(colour)}", **place}), "title", {}, said)
        if known and words:
            self.keys.append(Key(words, colour_of(colour), form))

    def words(self, x: float, y: float, words: str) -> None:
        """Words beside a value."""
        text(self._svg, self._at_x(x) + 6, self._at_y(y) - 5, words, "start", "said")

    def stems(self, points: Iterable[Point], words: str, colour: int) -> None:
        """Counts as columns from the bottom."""
        path = "".join(f"M{self._at_x(x):.1f} {self._bottom}V{self._at_y(y):.1f}" for x, y in points if y is not None)
        add(self._svg, "path", {"class": f"stem {colour_of(colour)}", "d": path})
        self.keys.append(Key(words, colour_of(colour)))

    def levels(self, found: Iterable[Level]) -> None:
        """Limits across the plot; their words stand in the legend, where no line crosses them."""
        for words, limit in found:
            at = self._at_y(limit)
            add(self._svg, "path", {"class": "limit", "d": f"M{_LEFT} {at:.1f}H{WIDTH - RIGHT}"})
            self.keys.append(Key(words, "", "limit"))

    def mark(self, x: float, words: str) -> None:
        """A place on the horizontal axis; its words stand above the plot."""
        at = self._at_x(x)
        add(self._svg, "path", {"class": "mark", "d": f"M{at:.1f} {_TOP - 4}V{self._bottom}"})
        half = len(words) * _CHARACTER / 2
        anchor = "middle" if half < at < WIDTH - half else "end" if at > WIDTH / 2 else "start"
        text(self._svg, at, _TOP - 8, words, anchor, "said")

    def band(self, low: float, high: float) -> None:
        """An interval on the horizontal axis."""
        left, right = self._at_x(low), self._at_x(high)
        box = {"x": f"{left:.1f}", "width": f"{max(right - left, 1):.1f}", "y": f"{_TOP}"}
        add(self._svg, "rect", {"class": "band", **box, "height": f"{self._bottom - _TOP}"})

    def cells(self, xs: Sequence[float], ys: Sequence[float], counts: Sequence[Sequence[int]]) -> None:
        """A heatmap: `counts[i][j]` lie between xs[i], xs[i + 1] and ys[j], ys[j + 1]; shades are logarithmic."""
        most = max((count for row in counts for count in row), default=0)
        paths = [""] * _LEVELS
        for i, row in enumerate(counts):
            left, right = self._at_x(xs[i]), self._at_x(xs[i + 1])
            for j, count in enumerate(row):
                if count:
                    level = math.ceil(math.log(1 + count) / math.log(1 + most) * _LEVELS) - 1
                    low, high = self._at_y(ys[j]), self._at_y(ys[j + 1])
                    paths[level] += f"M{left:.1f} {high:.1f}H{right:.1f}V{low:.1f}H{left:.1f}z"
        for level, path in enumerate(paths, 1):
            if path:
                add(self._svg, "path", {"class": "cell", "fill-opacity": f"{level / _LEVELS:.3g}", "d": path})

    @property
    def svg(self) -> Markup:
        """The element."""
        return markup(self._svg)

    def _at_x(self, value: float) -> float:
        return _LEFT + self._x.share(value) * (WIDTH - _LEFT - RIGHT)

    def _at_y(self, value: float) -> float:
        return self._bottom - self._y.share(value) * (self._bottom - _TOP)


def colour_of(colour: int) -> str:
    """Return the style of a colour: one of the page's nine, which begin anew after the last, or one with a meaning."""
    return {BAD: "bad", GOOD: "good"}.get(colour, f"c{colour % COLOURS}")


def root_of(name: str, height: int) -> ET.Element:
    """An empty drawing; `name` is what a screen reader says of it."""
    return ET.Element("svg", {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": printable(name)})


def text(svg: ET.Element, x: float, y: float, words: str, anchor: str, style: str = "tick") -> None:
    """Write words."""
    add(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "class": style}, words)


def add(parent: ET.Element, tag: str, attributes: dict[str, str], words: str = "") -> ET.Element:
    """Add an element."""
    element = ET.SubElement(parent, tag, attributes)
    element.text = printable(str(words)) or None  # a damaged document has a number where words belong
    return element


def markup(svg: ET.Element) -> Markup:
    """Words are escaped by the writer."""
    return Markup(ET.tostring(svg, encoding="unicode"))  # noqa: S704
