"""The sending thread's priority: an open loop asks to run as soon as a request is due, within a bound."""

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from servemark.documents.load import AUTO
from servemark.errors import OptionError
from servemark.machine.scheduling import (
    Attributes,
    GrantedPriority,
    Priority,
    is_realtime,
    named,
    ordinary,
    refusal,
    schedule,
)
from servemark.telemetry import os_threads

MOST_SHARE = 0.5
"""Of a core, in real time. A fair scheduler gives a thread as much beside one other, so up to here real time changes
when the generator runs, and takes nothing from the server that it would have had otherwise."""
WATCHED_S = 1.0
"""Over which the share is taken: a generator that catches up after a stall may use a core for a moment."""
_CLOSED = "a closed loop waits for answers, not for a schedule"
_CLOCKS = (time.monotonic, time.thread_time)


class SendersPriority:
    """The priority of the thread that enters it, until it leaves; `granted` says which one that is.

    Threads that read the machine's meters get the same. A meter's thread holds the interpreter's lock, and where other
    work takes its core meanwhile, the sending thread would wait for it. They use at most 2 % of a core each.

    `asked` is a value of --sender-priority. `auto` is the best that is permitted for an open loop. A closed loop's
    thread, and one for which somebody chose another priority (nice, chrt), is left as it is.
    """

    def __init__(
        self,
        asked: str,
        *,
        open_loop: bool,
        clocks: tuple[Callable[[], float], Callable[[], float]] = _CLOCKS,
    ) -> None:
        self.granted = GrantedPriority()
        self._asked, self._open_loop = asked, open_loop
        self._wall, self._used = clocks
        self._before: Attributes | None = None
        self._now = Priority.NORMAL

    def require(self) -> None:
        """Check that a priority asked for by name can be had. Raises OptionError."""
        if self._asked == AUTO:
            return
        why = refusal(Priority(self._asked))
        if why is not None:
            raise OptionError(
                f"--sender-priority {self._asked}: {why}",
                fix="run as root or with CAP_SYS_NICE, allow it (`ulimit -r 1`), or leave out --sender-priority",
            )

    def __enter__(self) -> Self:
        self._since = self._wall(), self._used()
        reasons: list[str] = []
        try:
            self._before = Attributes.now()
        except OSError as error:
            self.granted = GrantedPriority(note=error.strerror)
            return self
        self._take(self._wanted(self._before, reasons), self._before, reasons)
        os_threads.at_start.append(self._join)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            if self._before is not None:
                os_threads.at_start.remove(self._join)
                self._schedule(Priority.NORMAL, self._before)

    def watch(self) -> None:
        """Give real time up for good where the thread takes more of a core than it would have got without it."""
        if self.granted.priority is not Priority.REALTIME or self._before is None or is_realtime(self._before):
            return
        now = self._wall()
        since, used = self._since
        if now - since < WATCHED_S:
            return
        self._since = now, self._used()
        share = (self._since[1] - used) / (now - since)
        if share > MOST_SHARE:
            given_up = f"real time was given up: it used {share:.0%} of a core, more than {MOST_SHARE:.0%}"
            self._take([Priority.SLICE, Priority.NORMAL], self._before, [given_up])

    def _take(self, wanted: list[Priority], before: Attributes, reasons: list[str]) -> None:
        """Take the first that is permitted; why it is none before it."""
        for priority in wanted:
            try:
                self._schedule(priority, before)
            except OSError as error:
                reasons.append(f"{priority.value}: {error.strerror}")
            else:
                got = Priority.REALTIME if is_realtime(before) and priority is Priority.NORMAL else priority
                self.granted = GrantedPriority(got, "; ".join(reasons) or None)
                return
        self.granted = GrantedPriority(note="; ".join(reasons))

    def _schedule(self, priority: Priority, before: Attributes) -> None:
        """Schedule this thread, and those of the meters, so. Raises OSError where this one is refused."""
        schedule(priority, before)
        self._now = priority
        for thread in os_threads.running.copy():
            self._join(thread)

    def _join(self, thread: int) -> None:
        """Schedule a meter's thread as this one."""
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if self._before is not None:
                schedule(self._now, self._before, thread)

    def _wanted(self, before: Attributes, reasons: list[str]) -> list[Priority]:
        """List the priorities to try, in order, and append the reasons against the others."""
        if self._asked != AUTO:
            return [Priority(self._asked)]
        if not ordinary(before):
            reasons.append(f"left as it was started: {named(before)}")
            return [Priority.NORMAL]
        if not self._open_loop:
            reasons.append(_CLOSED)
            return [Priority.NORMAL]
        return list(Priority)
