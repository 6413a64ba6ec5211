"""Steps of an export: on stderr, which one goes on and for how long; and whose fault it is that one fails."""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from servemark.errors import ArtifactError, ServemarkError
from servemark.output import say
from servemark.repository.entry import Entry
from servemark.telemetry.os_threads import start_thread

MAX_WORDS = 400
"""Letters of a converter's or an engine's message, at most: the reason comes after the place."""
FIX = "use another engine or precision"
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


@contextlib.contextmanager
def converting(draft: Entry, origin: str) -> Iterator[None]:
    """Make something of a user's file or network: whatever a converter raises is of that, and not a fault of ours.

    Converters wrap what stopped them in what they were about to do, so the innermost error is quoted.
    """
    try:
        yield
    except (ServemarkError, OSError):
        raise
    except Exception as error:
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        raise ArtifactError(
            f"{draft.engine} in {draft.precision} cannot be made of {origin}: "
            f"{type(first).__name__}: {words(first, draft.version)}",
            fix=FIX,
        ) from error


@contextlib.contextmanager
def loading(draft: Entry) -> Iterator[None]:
    """Load an artifact that has just been written: whatever the engine raises is the artifact's fault."""
    try:
        yield
    except ServemarkError:
        raise
    except Exception as error:  # the engines' exceptions share no other base
        raise ArtifactError(
            f"{draft.engine} cannot load {draft.model}: {words(error, draft.version)}", fix=FIX
        ) from error


def words(error: BaseException, folder: Path) -> str:
    """Quote an error in one line without the temporary `folder`; its class where it says nothing."""
    said = " ".join(str(error).replace(f"{folder}/", "").split())[:MAX_WORDS]
    return said.rstrip(" :") or type(error).__name__
