"""Charts without axes of a plot: an icicle of parts below their whole, and radars side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from servemark.output import printable
from servemark.views.drawing.plot import WIDTH, add, colour_of, markup, root_of, text

_LEVEL, _GAP = 22, 1
_LETTER = 9.5
"""Width of a character on a phone, where words are larger."""
_NARROWEST = 0.4
"""Of what is drawn; a pixel of a screen is about twice that."""
_DEEPEST = 9


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


def icicle(name: str, root: Branch, unit: str) -> Markup:
    """Draw a root above its parts; values have a unit."""
    svg = root_of(name, min(root.depth, _DEEPEST) * _LEVEL)

    def draw(branch: Branch, left: float, level: int) -> None:
        width = branch.value / root.value * WIDTH if root.value else 0.0
        if width < _NARROWEST or level >= _DEEPEST:
            return
        style = "branch" if branch.colour is None else f"leaf {colour_of(branch.colour)}"
        at = {"x": f"{left:.2f}", "y": f"{level * _LEVEL}", "width": f"{max(width - _GAP, 0.3):.2f}"}
        box = add(svg, "rect", {"class": style, **at, "height": f"{_LEVEL - _GAP}"})
        share = branch.value / root.value
        add(box, "title", {}, f"{branch.words}: {branch.value:.3g} {unit}, {share:.1%}{branch.said}")
        room = int(width / _LETTER) - 1
        if room >= 3:
            words = branch.words if len(branch.words) <= room else f"{branch.words[: room - 1]}…"
            text(svg, left + 4, level * _LEVEL + 15, words, "start", "name")
        for part in branch.parts.values():
            draw(part, left, level + 1)
            left += part.value / root.value * WIDTH

    draw(root, 0.0, 0)
    return markup(svg)


_ACROSS = 4
_SIDE = WIDTH / _ACROSS
_RADIUS, _HEAD = 48.0, 24.0
"""Of a radar, and the height of the words above it."""
_LETTERS = 15
"""Characters that have room above a radar on a phone, where words are larger."""


def radars(name: str, axes: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None], int]]) -> Markup:
    """Draw a radar for each row of words, values from 0 to 1 and colour; axes are numbered from the top, clockwise.

    A value that is not known lies in the middle, without a dot.
    """
    lines = math.ceil(len(rows) / _ACROSS)
    svg = root_of(name, round(lines * (2 * _RADIUS + _HEAD + 30)))
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]

    for number, (words, values, colour) in enumerate(rows):
        middle_x = (number % _ACROSS + 0.5) * _SIDE
        middle_y = (number // _ACROSS) * (2 * _RADIUS + _HEAD + 30) + _HEAD + _RADIUS + 12

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
                add(
                    svg, "circle", {"class": f"dot {colour_of(colour)}", "cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "2.5"}
                )
        shown = printable(words)
        shown = shown if len(shown) <= _LETTERS else f"{shown[: _LETTERS - 1]}…"
        text(svg, middle_x, middle_y - _RADIUS - 21, shown, "middle", "name")
    return markup(svg)


def _closed(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "z"
