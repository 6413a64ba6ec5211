"""A process in which cases run one after the other: what takes it down costs the case, not the run."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from servemark import interrupts

GRACE_S = 3.0
_FIRST_TO_GO = "1000"
T = TypeVar("T")


class Ended(Exception):  # noqa: N818 - an event: the next case goes on
    """The process ended, or was ended, before the case did."""


class CaseProcess:
    """Runs calls in a process of its own, which is replaced when it has ended. For use in a `with`."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, call: Callable[..., T], *arguments: object, timeout_s: float) -> T:
        """The call's answer. Raises Ended where the process died or took longer, KeyboardInterrupt on a signal."""
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)
        try:
            with interrupts.anywhere():
                return self._pool.submit(call, *arguments).result(timeout_s)
        except BrokenProcessPool:
            self._end()
            raise Ended("its process was killed: out of memory, or a crash of the library") from None
        except TimeoutError:
            self._end()
            raise Ended(f"not done within {timeout_s:g} s") from None
        except KeyboardInterrupt:
            self._end()
            raise

    def _end(self) -> None:
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
                process.join(GRACE_S)
                process.kill()
            self._pool = None


def _begin() -> None:
    """Leave Ctrl-C to the command, end with it, and be the first that the system kills for its memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.end_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
