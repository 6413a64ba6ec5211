"""Where words go: results to stdout, everything about the work itself to stderr."""

import sys

from rich.console import Console

# Wide enough for one table in a pipe, where rich cannot ask the terminal.
_PIPE_WIDTH = 140

stderr = Console(stderr=True, highlight=False, soft_wrap=True)
"""Progress, notes and errors."""


def stdout() -> Console:
    """Results for reading; plain text in a pipe."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(highlight=False, width=width)


def note(text: str) -> None:
    """Say something about the work, on stderr."""
    stderr.print(text, markup=False)
