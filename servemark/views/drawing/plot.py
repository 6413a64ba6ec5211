"""A plot: axes, and what is drawn between them, as one SVG element whose colours are the page's."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET  # writes only: nothing is parsed

from markupsafe import Markup

from servemark.output import printable
from servemark.quantities import figure, with_interval
from servemark.views.drawing.axis import Axis

WIDTH, HEIGHT = 560, 302
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 16, 42, 48
_ROW = 40
"""Height of a bar with its words above it."""
_STACK, _EDGE = 34, 8
"""Height of a stacked bar with its words, and the room on its left."""
_CHARACTER = 9
"""Width of a character on a phone, where words are larger."""
_LEVELS = 8
"""Shades of a heatmap."""
COLOURS = 8
BAD, GOOD = -1, -2
"""Colours with a meaning: failed, not met; met."""
Point = tuple[float, float | None]


@dataclass(frozen=True)
class Key:
    """An entry of the legend."""

    words: str
    colour: str
    form: str = "line"


@dataclass(frozen=True)
class Bar:
    """A figure with its interval and the words above it; a hollow one may be chance."""

    words: str
    value: float | None
    interval: Sequence[float | None] | None = None
    colour: int = 0
    hollow: bool = False
    unit: str = ""
    digits: int | None = None
    said: str = ""
    """Of its row in the table of numbers."""
    start: float = 0.0
    """Its beginning: a step of a waterfall begins at the end of the one before."""

    @property
    def formatted(self) -> str:
        """The value."""
        return figure(self.value) if self.digits is None or self.value is None else f"{self.value:.{self.digits}f}"


def ends(drawn: Iterable[Bar]) -> list[float | None]:
    """Values and ends of intervals, for an axis around them."""
    return [end for bar in drawn for end in (bar.value, *(bar.interval or ()))]


class Plot:
    """Draws marks in the order in which they are asked for. `name` is what a screen reader says of it."""

    def __init__(self, name: str, x: Axis, y: Axis) -> None:
        self._x, self._y = x, y
        self._bottom = HEIGHT - _BOTTOM
        self._svg = root_of(name, HEIGHT)
        self.keys: list[Key] = []
        for value, words in y.ticks:
            at = self._at_y(value)
            add(self._svg, "path", {"class": "grid", "d": f"M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"})
            text(self._svg, _LEFT - 6, at + 4, words, "end")
        for value, words in x.ticks:
            at = self._at_x(value)
            add(self._svg, "path", {"class": "grid", "d": f"M{at:.1f} {_TOP}V{self._bottom}"})
            # The first stays beside the words of the vertical axis, which are as large on a phone.
            text(self._svg, min(max(at, _LEFT + 10), WIDTH - _RIGHT - 8), self._bottom + 17, words, "middle")
        text(self._svg, 4, 14, y.title, "start", "axis")
        text(self._svg, WIDTH - _RIGHT, HEIGHT - 8, x.title, "end", "axis")

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
        drawn = 0
        for x, y, said in points:
            if y is not None:
                at = {
                    "class": f"{form} {colour_of(colour)}",
                    "cx": f"{self._at_x(x):.1f}",
                    "cy": f"{self._at_y(y):.1f}",
                    "r": "4",
                }
                add(add(self._svg, "circle", at), "title", {}, said)
                drawn += 1
        if drawn and words:
            self.keys.append(Key(words, colour_of(colour), form))

    def words(self, x: float, y: float, words: str) -> None:
        """Words beside a value."""
        text(self._svg, self._at_x(x) + 6, self._at_y(y) - 5, words, "start", "said")

    def stems(self, points: Iterable[Point], words: str, colour: int) -> None:
        """Counts as columns from the bottom."""
        path = "".join(f"M{self._at_x(x):.1f} {self._bottom}V{self._at_y(y):.1f}" for x, y in points if y is not None)
        add(self._svg, "path", {"class": f"stem {colour_of(colour)}", "d": path})
        self.keys.append(Key(words, colour_of(colour)))

    def level(self, y: float, words: str) -> None:
        """A limit across the plot; its words stand in the legend, where no line crosses them."""
        at = self._at_y(y)
        add(self._svg, "path", {"class": "limit", "d": f"M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"})
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
        return _LEFT + self._x.share(value) * (WIDTH - _LEFT - _RIGHT)

    def _at_y(self, value: float) -> float:
        return self._bottom - self._y.share(value) * (self._bottom - _TOP)


def bars(name: str, axis: Axis, rows: Sequence[Bar], *, points: bool = False) -> Markup:
    """Figures below each other with their intervals: bars from 0, or points beside a line at 1."""
    bottom = 8 + _ROW * len(rows)
    svg = root_of(name, bottom + 40)

    def at(value: float) -> float:
        return 8 + axis.share(value) * (WIDTH - 24)

    # No line crosses the words above a bar.
    lanes = [8 + number * _ROW + 16 for number in range(len(rows))]
    for value, words in axis.ticks:
        across(svg, "grid", at(value), lanes)
        text(svg, min(max(at(value), 14), WIDTH - 22), bottom + 16, words, "middle")
    if points and axis.low < 1 < axis.high:
        across(svg, "mark", at(1.0), lanes)
    for lane, row in zip(lanes, rows, strict=True):
        shown = with_interval(f"{row.formatted}{row.unit}", row.interval, row.digits)
        text(svg, 8, lane - 4, row.words, "start", "name")
        text(svg, WIDTH - 16, lane - 4, shown, "end", "name")
        if row.value is None:
            continue
        colour, middle = colour_of(row.colour), lane + 9
        if not points:
            left, right = sorted((at(row.start), at(row.start + row.value)))
            box = {"x": f"{left:.1f}", "y": f"{middle - 6}", "width": f"{max(right - left, 0.5):.1f}", "height": "12"}
            add(svg, "rect", {"class": f"bar {colour}", **box})
        low, high = row.interval or (None, None)
        if low is not None and high is not None:
            whisker = f"M{at(low):.1f} {middle - 5}v10m0 -5H{at(high):.1f}m0 -5v10"
            add(svg, "path", {"class": "whisker", "d": whisker})
        if points:
            form = "hollow" if row.hollow else "dot"
            add(svg, "circle", {"class": f"{form} {colour}", "cx": f"{at(row.value):.1f}", "cy": f"{middle}", "r": "5"})
    text(svg, WIDTH - 16, bottom + 34, axis.title, "end", "axis")
    return markup(svg)


def stacked(name: str, rows: Sequence[tuple[str, Sequence[tuple[str, float, int | None]]]]) -> Markup:
    """Draw a bar for each row of words and parts: what each is, its share of 1, and its colour (None: none)."""
    bottom = 8 + _STACK * len(rows)
    svg = root_of(name, bottom + 36)
    width = WIDTH - _EDGE - _RIGHT
    for number, (words, parts) in enumerate(rows):
        top = 8 + number * _STACK + 14
        text(svg, _EDGE, top - 4, words, "start", "name")
        left = float(_EDGE)
        for part, share, colour in parts:
            if share > 0:
                style = "branch" if colour is None else f"bar {colour_of(colour)}"
                box = {"x": f"{left:.1f}", "y": f"{top}", "width": f"{share * width:.1f}", "height": "13"}
                add(add(svg, "rect", {"class": style, **box}), "title", {}, f"{words}: {part} {share:.1%}")
                left += share * width
    for percent in (0, 25, 50, 75, 100):
        at = _EDGE + percent / 100 * width
        text(svg, min(max(at, 14), WIDTH - 22), bottom + 16, f"{percent}", "middle")
    text(svg, WIDTH - _RIGHT, bottom + 32, "% of the inference", "end", "axis")
    return markup(svg)


def across(svg: ET.Element, style: str, x: float, lanes: Iterable[int]) -> None:
    """Draw a vertical line through the lanes of the bars only."""
    add(svg, "path", {"class": style, "d": "".join(f"M{x:.1f} {lane}v{_ROW - 18}" for lane in lanes)})


def colour_of(colour: int) -> str:
    """Return the style of a colour: one of the page's eight, which begin anew after the last, or one with a meaning."""
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
