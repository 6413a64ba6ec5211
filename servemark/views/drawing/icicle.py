"""An icicle: a flame graph that hangs from its root. A part is as wide as its value, and stands below what it is of.

Gregg 2016, "The Flame Graph". The order is that of the parts, not of time, and equal colours are of one kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from servemark.views.drawing.plot import WIDTH, add, colour_of, markup, root_of, text

_ROW, _GAP = 22, 1
_CHARACTER = 9.5
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
    svg = root_of(name, min(root.depth, _DEEPEST) * _ROW)

    def draw(branch: Branch, left: float, level: int) -> None:
        width = branch.value / root.value * WIDTH if root.value else 0.0
        if width < _NARROWEST or level >= _DEEPEST:
            return
        style = "branch" if branch.colour is None else f"leaf {colour_of(branch.colour)}"
        at = {"x": f"{left:.2f}", "y": f"{level * _ROW}", "width": f"{max(width - _GAP, 0.3):.2f}"}
        box = add(svg, "rect", {"class": style, **at, "height": f"{_ROW - _GAP}"})
        share = branch.value / root.value
        add(box, "title", {}, f"{branch.words}: {branch.value:.3g} {unit}, {share:.1%}{branch.said}")
        room = int(width / _CHARACTER) - 1
        if room >= 3:
            words = branch.words if len(branch.words) <= room else f"{branch.words[: room - 1]}…"
            text(svg, left + 4, level * _ROW + 15, words, "start", "name")
        for part in branch.parts.values():
            draw(part, left, level + 1)
            left += part.value / root.value * WIDTH

    draw(root, 0.0, 0)
    return markup(svg)
