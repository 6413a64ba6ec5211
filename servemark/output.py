"""Output: results go to stdout, everything about the work itself to stderr."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, NoReturn

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


class _Unfailing(_Words):
    """Words that never end the work that they are about, also where nobody can read them."""

    def print(self, *objects: Any, **options: Any) -> None:
        with _unless_gone(self.file):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> NoReturn:
        """Raise what happened: rich would end the process."""
        raise BrokenPipeError


@contextlib.contextmanager
def _unless_gone(stream: IO[str]) -> Iterator[None]:
    """Write to a stream; on a full disk, or where its reader has gone, this and all that follows goes nowhere."""
    try:
        yield
    except OSError:
        # What is left in the stream's buffer would fail again at exit, and change the exit code.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


SAYS = "SERVEMARK_SAYS"
"""Environment variable with the amount of output, so that the processes of a command inherit it."""
ERRORS, NOTES, EVERYTHING = "errors", "notes", "everything"
"""Amounts of output: only errors, of the library and beside a JSON document; a command's; or nothing left out."""


def says(how_much: str) -> bool:
    """Return True if this amount of output is asked for. The library, which no command calls, says only errors."""
    return os.environ.get(SAYS, ERRORS) == how_much


stderr = _Unfailing(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
"""Progress, notes and errors."""


def stdout(*, kept: bool = False) -> Console:
    """Results for reading; plain text in a pipe. Where a file keeps them too (`kept`), a full disk is not an error."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return (_Unfailing if kept else _Words)(highlight=False, width=width, markup=False, emoji=False)


def say(text: str) -> None:
    """Write to stderr as it is: a line of progress. Nothing where only errors are said."""
    if says(ERRORS):
        return
    with _unless_gone(sys.stderr):
        sys.stderr.write(text)
        sys.stderr.flush()


def note(text: str) -> None:
    """Say something about the work, on stderr. Nothing where only errors are said."""
    if not says(ERRORS):
        stderr.print(text)
