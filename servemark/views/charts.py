"""Charts without a plot's axes: bars below each other, stacked bars, an icicle of parts, and radars side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from servemark.output import printable
from servemark.quantities import figure, with_interval
from servemark.views.drawing import RIGHT, WIDTH, add, colour_of, linear, logarithmic, markup, root_of, text

_ROW = 40
"""Height of a bar with its words above it."""
_STACK, _EDGE = 34, 8
"""Height of a stacked bar with its words, and the room on its left."""
_LEVEL, _GAP = 22, 1
_LETTER = 9.5
"""Width of a character on a phone, where words are larger."""
_NARROWEST = 0.4
"""Of what is drawn; a pixel of a screen is about twice that."""
_DEEPEST = 9
_ACROSS = 4
_RADIUS, _HEAD = 48.0, 24.0
"""Of a radar, and the height of the words above it."""
_WIDE, _HIGH = WIDTH / _ACROSS, 2 * _RADIUS + _HEAD + 30
_LETTERS = 15
"""Characters that have room above a radar on a phone, where words are larger."""


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


def bars(name: str, unit: str, rows: Sequence[Bar], *, points: bool = False, around: Sequence[float] = ()) -> Markup:
    """Draw figures below each other with their intervals: bars from 0, or points beside a line at 1.

    The axis of `unit` has room for the values of `around` besides; that of points is logarithmic.
    """
    bottom = 8 + _ROW * len(rows)
    svg = root_of(name, bottom + 40)
    values = [*around, *(row.start + row.value for row in rows if row.value is not None)]
    values += [end for row in rows for end in row.interval or () if end is not None]
    axis = logarithmic(unit, values) if points else linear(unit, values)

    def at(value: float) -> float:
        return 8 + axis.share(value) * (WIDTH - 24)

    def across(style: str, value: float) -> None:
        """Draw a vertical line; it crosses no words above a bar."""
        add(svg, "path", {"class": style, "d": "".join(f"M{at(value):.1f} {lane}v{_ROW - 18}" for lane in lanes)})

    lanes = [8 + number * _ROW + 16 for number in range(len(rows))]
    for value, words in axis.ticks:
        across("grid", value)
        text(svg, min(max(at(value), 14), WIDTH - 22), bottom + 16, words, "middle")
    if points and axis.low < 1 < axis.high:
        across("mark", 1.0)
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
    width = WIDTH - _EDGE - RIGHT
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
    text(svg, WIDTH - RIGHT, bottom + 32, "% of the inference", "end", "axis")
    return markup(svg)


@dataclass
class Branch:
    """A part with its parts, which `value` includes. `said` stands under the pointer. No colour: of many kinds."""

    words: str
    value: float = 0.0
    colour: int | None = None
    said: str = ""
    parts: dict[str, "Branch"] = field(default_factory=dict)

    def grow(self, path: Sequence[str], leaf: "Branch") -> None:
        """Add a leaf below a path of branches, which become larger by it."""
        self.value += leaf.value
        if path:
            self.parts.setdefault(path[0], Branch(path[0])).grow(path[1:], leaf)
        else:
            known = self.parts.setdefault(leaf.words, leaf)
            if known is not leaf:
                known.value += leaf.value

    @property
    def depth(self) -> int:
        """Levels, its own included."""
        return 1 + max((part.depth for part in self.parts.values()), default=0)


def icicle(name: str, root: Branch) -> Markup:
    """Draw a root above its parts; values are in ms."""
    svg = root_of(name, min(root.depth, _DEEPEST) * _LEVEL)

    def draw(branch: Branch, left: float, level: int) -> None:
        width = branch.value / root.value * WIDTH if root.value else 0.0
        if width < _NARROWEST or level >= _DEEPEST:
            return
        style = "branch" if branch.colour is None else f"leaf {colour_of(branch.colour)}"
        at = {"x": f"{left:.2f}", "y": f"{level * _LEVEL}", "width": f"{max(width - _GAP, 0.3):.2f}"}
        box = add(svg, "rect", {"class": style, **at, "height": f"{_LEVEL - _GAP}"})
        share = branch.value / root.value
        add(box, "title", {}, f"{branch.words}: {branch.value:.3g} ms, {share:.1%}{branch.said}")
        room = int(width / _LETTER) - 1
        if room >= 3:
            text(svg, left + 4, level * _LEVEL + 15, _shortened(branch.words, room), "start", "name")
        for part in branch.parts.values():
            draw(part, left, level + 1)
            left += part.value / root.value * WIDTH

    draw(root, 0.0, 0)
    return markup(svg)


def radars(name: str, axes: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None], int]]) -> Markup:
    """Draw a radar for each row of words, values from 0 to 1 and colour; axes are numbered from the top, clockwise.

    A value that is not known lies in the middle, without a dot.
    """
    svg = root_of(name, round(math.ceil(len(rows) / _ACROSS) * _HIGH))
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    for number, (words, values, colour) in enumerate(rows):
        middle_x = (number % _ACROSS + 0.5) * _WIDE
        middle_y = (number // _ACROSS) * _HIGH + _HEAD + _RADIUS + 12

        def at(angle: float, share: float, x: float = middle_x, y: float = middle_y) -> tuple[float, float]:
            return x + math.cos(angle) * share * _RADIUS, y + math.sin(angle) * share * _RADIUS

        for share in (0.5, 1.0):
            add(svg, "path", {"class": "grid", "d": _closed([at(angle, share) for angle in angles])})
        for place, angle in enumerate(angles, start=1):
            x, y = at(angle, 1.18)
            text(svg, x, y + 4, f"{place}", "middle", "tick dense")
        corners = [at(angle, value or 0.0) for angle, value in zip(angles, values, strict=True)]
        shape = {"class": f"leaf {colour_of(colour)}", "d": _closed(corners)}
        said = ", ".join(f"{axis} {'-' if v is None else f'{v:.0%}'}" for axis, v in zip(axes, values, strict=True))
        add(add(svg, "path", shape), "title", {}, f"{words}: {said}")
        for (x, y), value in zip(corners, values, strict=True):
            if value is not None:
                dot = {"class": f"dot {colour_of(colour)}", "cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "2.5"}
                add(svg, "circle", dot)
        text(svg, middle_x, middle_y - _RADIUS - 21, _shortened(words, _LETTERS), "middle", "name")
    return markup(svg)


def _shortened(words: str, most: int) -> str:
    shown = printable(words)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _closed(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "z"
