"""Bars of parts that make a whole: one below the other, each part with its colour."""

from collections.abc import Sequence

from markupsafe import Markup

from servemark.views.drawing.plot import WIDTH, add, colour_of, markup, root_of, text

_ROW, _BAR = 34, 13
_LEFT, _RIGHT = 8, 16


def stacked(name: str, rows: Sequence[tuple[str, Sequence[tuple[str, float, int | None]]]]) -> Markup:
    """Draw a bar for each row of words and parts: what each is, its share of 1, and its colour (None: none)."""
    bottom = 8 + _ROW * len(rows)
    svg = root_of(name, bottom + 36)
    width = WIDTH - _LEFT - _RIGHT
    for number, (words, parts) in enumerate(rows):
        top = 8 + number * _ROW + 14
        text(svg, _LEFT, top - 4, words, "start", "name")
        left = float(_LEFT)
        for part, share, colour in parts:
            if share > 0:
                style = "branch" if colour is None else f"bar {colour_of(colour)}"
                box = {"x": f"{left:.1f}", "y": f"{top}", "width": f"{share * width:.1f}", "height": f"{_BAR}"}
                add(add(svg, "rect", {"class": style, **box}), "title", {}, f"{words}: {part} {share:.1%}")
                left += share * width
    for percent in (0, 25, 50, 75, 100):
        at = _LEFT + percent / 100 * width
        text(svg, min(max(at, 14), WIDTH - 22), bottom + 16, f"{percent}", "middle")
    text(svg, WIDTH - _RIGHT, bottom + 32, "% of the inference", "end", "axis")
    return markup(svg)
