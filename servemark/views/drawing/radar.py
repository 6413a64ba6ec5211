"""Radars side by side, one for each thing: axes from the middle outwards, a value from 0 to 1 on each."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from servemark.output import printable
from servemark.views.drawing.plot import WIDTH, add, colour_of, markup, root_of, text

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
