"""A process in which calls run one after the other: what takes it down costs the call, not the command."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self, TypeVar

from servemark import interrupts
from servemark.errors import NoResultError, ServemarkError

GRACE_S = 3.0
"""Time to end by itself: what it has registered, such as semaphores, is then given back, and its drafts are removed."""
_FIRST_TO_GO = "1000"
UNGUARDED = 'this script has no `if __name__ == "__main__":`, so it would run again in a process that it needs'
_UNGUARDED = 87
"""Exit code of such a process."""
T = TypeVar("T")
WORDS = 300
"""Most characters of an error's words."""


class Ended(Exception):  # noqa: N818 - an event: the next call goes on
    """The process ended, or was ended, before the call did.

    `unguarded`: because the script that called it runs again in it, and calls again.
    """

    def __init__(self, words: str, *, unguarded: bool = False) -> None:
        super().__init__(words)
        self.unguarded = unguarded


ERRORS = (
    *(Ended, ServemarkError, NoResultError),
    *(RuntimeError, ValueError, KeyError, AssertionError, MemoryError, OSError),
)
"""Of what is called in a process of its own, where they are a word in a document. An error of another kind, such as
an engine's own exception, arrives as a RuntimeError."""


def words(error: BaseException) -> str:
    """Return the first line of an error's words."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:WORDS]


def first_to_go() -> None:
    """Leave Ctrl-C to the command, end with it, and be the first that the system kills for its memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.end_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


class OwnProcess:
    """Runs calls in a process of its own, which is replaced when it has ended. For use in a `with`.

    `begin` is called in it first, and decides what it does at a signal.
    """

    def __init__(self, begin: Callable[[], None] = first_to_go) -> None:
        self._begin = begin
        self._pool: ProcessPoolExecutor | None = None
        self._processes: list[BaseProcess] = []
        """Of the pool, which forgets them as soon as it is broken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(GRACE_S)

    def run(self, call: Callable[..., T], *arguments: object, timeout_s: float | None = None) -> T:
        """The call's answer. Raises Ended where the process died or took longer, KeyboardInterrupt on a signal."""
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            os._exit(_UNGUARDED)  # quietly, where multiprocessing would print 70 lines; the caller says why
        answer: Future[T] | None = None
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begun, initargs=(self._begin,))
        try:
            with interrupts.anywhere():
                resource_tracker.ensure_running()  # which lets signals through again
                with interrupts.held_back():
                    answer = self._pool.submit(_called, call, *arguments)
                    self._processes = list((self._pool._processes or {}).values()) or self._processes
                return answer.result(timeout_s)
        except BrokenProcessPool:
            processes = self._processes
            self._end()
            unguarded = any(_exit_code(process) == _UNGUARDED for process in processes)
            words = "its process was killed: out of memory, or a crash of the library"
            raise Ended(UNGUARDED if unguarded else words, unguarded=unguarded) from None
        except TimeoutError:
            if answer is not None and answer.done():
                raise  # the call's own, of a file or a connection
            self._end()
            raise Ended(f"not done within {timeout_s or 0:g} s") from None
        except KeyboardInterrupt:
            self._end()
            raise

    def _end(self, idle_s: float = 0.0) -> None:
        """End the process; one that has nothing to do may first end by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in self._processes:
                process.join(idle_s)
                process.terminate()
                process.join(GRACE_S)
                process.kill()
            self._pool, self._processes = None, []


def apart(call: Callable[..., T], *arguments: object, timeout_s: float, begin: Callable[[], None] = first_to_go) -> T:
    """Call in a process of its own, which ends with the call. Raises what the call raises, Ended, KeyboardInterrupt."""
    with OwnProcess(begin) as process:
        return process.run(call, *arguments, timeout_s=timeout_s)


def a_command() -> None:
    """Note signals, and end with the command."""
    interrupts.install()
    interrupts.end_with_parent(signal.SIGTERM)


def _exit_code(process: BaseProcess) -> int | None:
    """Return the exit code of a process that has ended, of which the pool's own thread may be about to take note."""
    until = time.monotonic() + GRACE_S
    while process.exitcode is None and time.monotonic() < until:
        time.sleep(0.001)
    return process.exitcode


def _called(call: Callable[..., T], *arguments: object) -> T:
    """Call; the classes of other errors may not be importable where the answer is read."""
    try:
        return call(*arguments)
    except ERRORS:
        raise
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _begun(begin: Callable[[], None]) -> None:
    begin()
    interrupts.let_through()
