"""Steps of an export on stderr: which one goes on, and for how long, because one may take minutes."""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from servemark.output import say
from servemark.telemetry.os_threads import start_thread

RENEWED_S = 1.0
_CLEAR = "\r\x1b[K"
_open: list[str] = []
"""Steps that go on, each within the one before it; the last one is shown."""
_writing = threading.Lock()


@contextlib.contextmanager
def step(words: str) -> Iterator[None]:
    """Show a step while the block goes on: with its seconds, in place, on a terminal; elsewhere as one line."""
    _open.append(words)
    ended = threading.Event()
    terminal = sys.stderr.isatty()
    if terminal:
        start_thread(lambda: _renew(words, ended))
    else:
        say(f"{datetime.now(UTC):%H:%M:%S} {words}\n")
    try:
        yield
    finally:
        ended.set()
        with _writing:
            _open.remove(words)
            if terminal:
                say(_CLEAR)


def _renew(words: str, ended: threading.Event) -> None:
    begun = time.monotonic()
    while not ended.is_set():
        line = f"{words}, {time.monotonic() - begun:.0f} s"
        with _writing:
            if _open[-1:] == [words]:
                say(f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}")
        ended.wait(RENEWED_S)
