"""SIGINT, SIGTERM and SIGHUP as events: a handler only notes them, and code asks at lines where it can end.

Python's own handler raises KeyboardInterrupt wherever Python happens to be: between a fork and its variable, or inside
a callback that loses it. Here `check` raises it, and so do the waits that ask; nothing else does, except in `anywhere`.

A command that asks nothing for RAISE_S after a signal is raised in wherever it is. END_S after a SIGTERM or SIGHUP it
ends, also in a call of C code or where something has lost the exception: a supervisor kills after that.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL_S = 0.05
AGAIN_S = 1.0
"""A second Ctrl-C sooner than this is the first one's bounce: it asks for nothing new."""
EXIT_CODE = 130
"""Of a command that a signal has ended."""
RAISE_S = 4.0
END_S = 9.0
"""After SIGTERM. What is being written ends before that, or stays a temporary file; Triton's guard ends Triton."""
OWNER = "SERVEMARK_OWNER"
"""Environment variable of a child: the process with which it ends."""
WATCHER = "SERVEMARK_WATCHER"
"""Environment variable of a command and what it starts: the command that has started it and watches it."""


class _State:
    """Signals that this process has seen, and their handling."""

    noted_s: float | None = None
    first: int | None = None
    raised = False
    overdue = False
    owned = False
    owner: int | None = None
    anywhere = 0
    finishing = 0
    insisted = False
    report: Callable[["sys.UnraisableHookArgs"], object] = staticmethod(sys.__unraisablehook__)


_state = _State()


def install() -> None:
    """Note the signals from now on; one that is ignored (nohup, a shell's background) stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note)
    if sys.unraisablehook is not _lost:
        _state.report, sys.unraisablehook = sys.unraisablehook, _lost
    let_through()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Start children of ours in this block: a signal waits in each until that calls `install` or `let_through`.

    Otherwise one that comes while a child imports its modules ends it with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """Take the signals that the parent has held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def end_in_time() -> None:
    """Have this command end soon after a signal, whatever it does. For the main thread of a process of its own."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # C's handler writes there: Python's waits for its turn
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def _watch(reading: int) -> None:
    """Wait for the first signal, then for the times after it."""
    noted: set[int] = set()
    while not noted & {*SIGNALS}:
        noted.update(os.read(reading, 1))
    start_s = time.monotonic()
    time.sleep(RAISE_S)
    if not _state.raised:
        _state.overdue = True
        signal.pthread_kill(threading.main_thread().ident or 0, min(noted & {*SIGNALS}))
    os.set_blocking(reading, False)
    while not noted & {signal.SIGTERM, signal.SIGHUP} or time.monotonic() - start_s < END_S:
        time.sleep(POLL_S)
        with contextlib.suppress(BlockingIOError):
            noted.update(os.read(reading, 64))
    os.write(2, b"servemark: ended by a signal, in the middle of its work\n")
    os._exit(EXIT_CODE)


def requested() -> bool:
    """Return True if this process is to end."""
    return _state.noted_s is not None


def cut_short_by(error: BaseException) -> str:
    """Say what ended a run before its time: its own error, a signal by its name, or whoever stopped its thread."""
    if isinstance(error, Exception):
        return f"it ended with {type(error).__name__}: {error}"
    return f"it was interrupted by {signal.Signals(_state.first).name}" if _state.first else "it was stopped"


def check() -> None:
    """Raise KeyboardInterrupt where this process is to end."""
    if _state.noted_s is not None:
        _state.raised = True
        raise KeyboardInterrupt


def sleep(seconds: float) -> None:
    """Sleep. Raises KeyboardInterrupt as soon as this process is to end."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, POLL_S))
    check()


def wait(process: "subprocess.Popen[bytes]", timeout_s: float = float("inf")) -> int:
    """Wait for a child; its exit code. Raises KeyboardInterrupt, and TimeoutExpired after the time-out."""
    end = time.monotonic() + timeout_s
    while True:
        check()
        try:
            code = process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise
        else:
            check()
            return code


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """Finish what is being written: nothing is raised in this block, and a second Ctrl-C ends the process after it."""
    _state.finishing += 1
    try:
        yield
    finally:
        _state.finishing -= 1
        if _state.insisted and not _state.finishing:
            os._exit(EXIT_CODE)


@contextlib.contextmanager
def anywhere() -> Iterator[None]:
    """For one long call of others' code, which asks nothing: a signal raises KeyboardInterrupt at any line of it."""
    _state.anywhere += 1
    try:
        check()
        yield
    finally:
        _state.anywhere -= 1
    check()


def end_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent ends, whatever ends that."""
    pr_set_pdeathsig = 1  # prctl(2)
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, number, 0, 0, 0)


def end_with_owner() -> None:
    """End this process as a SIGTERM does when the process that has started it ends, where it was told which."""
    owner = os.environ.pop(OWNER, None)
    if owner is not None:
        _state.owned, _state.owner = True, int(owner)
        end_with_parent(signal.SIGTERM)
        if os.getppid() != int(owner):
            signal.raise_signal(signal.SIGTERM)


def owner() -> int | None:
    """Return the process that has started this one and with which it ends; None where it was told of none."""
    return _state.owner


def watcher() -> int | None:
    """Return the command that watches the command of this run; None where there is none."""
    found = os.environ.get(WATCHER, "")
    return int(found) if found.isdecimal() else None


def _note(number: int, _frame: FrameType | None) -> None:
    now = time.monotonic()
    first = _state.noted_s is None
    if first:
        _state.noted_s, _state.first = now, number
    if _state.overdue or (first and _state.anywhere):
        # Overdue at the first note: Python had no turn between the two signals, and sees them as one.
        _state.overdue = False
        if not _state.finishing:
            _state.raised = True
            raise KeyboardInterrupt
    elif not first and _insists(number) and now - (_state.noted_s or now) >= AGAIN_S:
        if not _state.finishing:
            os._exit(EXIT_CODE)
        _state.insisted = True


def _lost(found: "sys.UnraisableHookArgs") -> None:
    """Raise an interrupt again, after RAISE_S, that came in a callback whose exceptions nobody hears."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        _state.raised = False
    else:
        _state.report(found)


def _insists(number: int) -> bool:
    """Return True if a repeated signal asks for the end at once; an owner may pass on a SIGTERM a second time."""
    return number == signal.SIGINT or (number == _state.first and not _state.owned)
