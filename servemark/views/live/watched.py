"""Runs as processes that this one draws on the terminal: they send the load, and this process has nothing to do."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live

from servemark.output import ERRORS, printable, say, says
from servemark.telemetry.os_threads import start_thread
from servemark.views.live.screen import LiveRun, Screen

DRAWN_PER_S = 2
ENDED_S = 2.0
"""Maximum wait for the last messages of a run that has ended."""
MAX_SAID = 16 << 20
"""Bytes that are kept of what a run writes meanwhile."""


def can_draw() -> bool:
    """Return True if stderr is a terminal that can move its cursor; else a run prints lines of its own."""
    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal and sys.stdout.isatty() and not says(ERRORS)


class Drawing:
    """Feeds a screen from pipes that runs write to, and from messages of this process."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._runs: dict[str, LiveRun] = {}
        self._said = bytearray()
        self._open = True
        said_by_runs, self.words = os.pipe()
        start_thread(lambda: self._follow_words(said_by_runs))

    def started(self, *names: str) -> None:
        """Show these runs from now on, side by side."""
        self._runs = {name: LiveRun(name) for name in names}
        self.screen.show(*self._runs.values())

    @contextlib.contextmanager
    def figures_of(self, name: str) -> Iterator[int]:
        """Start the run in this block, which gives it the end of a pipe that takes lines of JSON."""
        run = self._runs[name]
        reading, writing = os.pipe()
        start_thread(lambda: _follow_figures(reading, run))
        try:
            yield writing
        finally:
            os.close(writing)

    def say(self, line: str) -> None:
        """Show a line, and keep it."""
        self._keep(f"{line}\n".encode())

    def end(self) -> str:
        """All that was said. What a run has started may hold the pipe for longer: it is not waited for."""
        os.close(self.words)
        deadline = time.monotonic() + ENDED_S
        while self._open and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._said.decode(errors="replace")

    def _follow_words(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 16):
                self._keep(data)
        self._open = False

    def _keep(self, data: bytes) -> None:
        if len(self._said) < MAX_SAID:
            self._said += data
        for line in data.decode(errors="replace").splitlines():
            if line.strip():
                self.screen.say(printable(line))


def _follow_figures(descriptor: int, run: LiveRun) -> None:
    rest = b""
    with open(descriptor, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                # A line that was cut off because the pipe was full is passed over.
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    run.take(json.loads(line))
    run.ended = True


@contextlib.contextmanager
def drawn(screen: Screen) -> Iterator[Drawing]:
    """Draw a screen until the block ends, in the terminal's other buffer; then the terminal is as it was.

    What was said meanwhile is written after it, to stderr.
    """
    drawing = Drawing(screen)
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    try:
        with (
            Live(
                get_renderable=lambda: screen,
                console=console,
                screen=True,
                refresh_per_second=DRAWN_PER_S,
                redirect_stdout=False,
                redirect_stderr=False,
            ),
            screen.until_stopped(),
        ):
            yield drawing
    finally:
        say(drawing.end())


@contextlib.contextmanager
def drawn_where_seen(screen: Screen, *, quiet: bool, grace_s: float) -> Iterator[Drawing | None]:
    """Draw where somebody looks, else None. Metrics that linger would keep the report from the terminal."""
    if quiet or grace_s or not can_draw():
        yield None
    else:
        with drawn(screen) as drawing:
            yield drawing
