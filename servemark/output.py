"""Where words go: results to stdout, everything about the work itself to stderr."""

import re
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

# Wide enough for one table in a pipe, where rich cannot ask the terminal.
_PIPE_WIDTH = 140

# Control characters but tabs and ends of lines, marks that turn the direction of writing, halves of surrogate pairs.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with what would steer a terminal escaped, as JSON escapes it."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Words(Console):
    """Shows words as they are: a server's, a file's. No markup, no emoji codes, nothing that steers the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


stderr = _Words(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
"""Progress, notes and errors."""


def stdout() -> Console:
    """Results for reading; plain text in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return _Words(highlight=False, width=width, markup=False, emoji=False)


def note(text: str) -> None:
    """Say something about the work, on stderr."""
    stderr.print(text)
