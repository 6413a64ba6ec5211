"""A run as a process that this one draws on the terminal: it sends the load, and this process has nothing to do."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import cast

from rich.console import Console
from rich.live import Live

from servemark.output import ERRORS, printable, say, says
from servemark.report.terminal.live import LiveFigures, LiveView
from servemark.telemetry.native import start_thread

DRAWN_PER_S = 2
ENDED_S = 2.0
"""How long the last words of a run that has ended are waited for."""
MAX_SAID = 16 << 20
"""Bytes that are kept of what a run writes meanwhile."""


def can_draw() -> bool:
    """Whether somebody looks at a terminal that can move its cursor; else a run shows lines of its own."""
    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal and sys.stdout.isatty() and not says(ERRORS)


class Watched:
    """The ends of a run's pipes: `figures` takes lines of JSON, `words` takes what it writes to stdout and stderr."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._said = bytearray()
        self._rest = b""
        self._open = 2
        figures_out, self.figures = os.pipe()
        words_out, self.words = os.pipe()
        start_thread(lambda: self._follow(figures_out, self._figures))
        start_thread(lambda: self._follow(words_out, self._words))

    @contextlib.contextmanager
    def of_run(self) -> Iterator[None]:
        """Start the run in this block, which gives it the other ends: when it ends, nothing more comes."""
        try:
            yield
        finally:
            os.close(self.figures)
            os.close(self.words)

    def wait(self) -> None:
        """Wait until all that the run has written is here; what it has started may hold the pipes for longer."""
        deadline = time.monotonic() + ENDED_S
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)

    @property
    def said(self) -> str:
        """All that the run has written."""
        return self._said.decode(errors="replace")

    def _follow(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 16):
                take(data)
        self._open -= 1

    def _figures(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            # A line that was cut off because the pipe was full is passed over.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._view.take(cast(LiveFigures, json.loads(line)))

    def _words(self, data: bytes) -> None:
        if len(self._said) < MAX_SAID:
            self._said += data
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                self._view.say(printable(line))


@contextlib.contextmanager
def drawn(view: LiveView) -> Iterator[Watched]:
    """Draw a view until the block ends, on a screen of its own; then the terminal is as it was.

    What the run has written meanwhile is written after it, to stderr.
    """
    watched = Watched(view)
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    try:
        with Live(
            get_renderable=lambda: view,
            console=console,
            screen=True,
            refresh_per_second=DRAWN_PER_S,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield watched
    finally:
        watched.wait()
        say(watched.said)
