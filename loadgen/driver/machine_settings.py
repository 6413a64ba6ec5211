"""Settings of the machine for the load, within bounds: a thread that sends in time, and cores that wake at once."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import Self

from loadgen.sut.target import Target
from servemark.documents.load import AUTO
from servemark.documents.request import ON
from servemark.errors import OptionError
from servemark.figures.value import Value
from servemark.machine import scheduling
from servemark.machine.environment import virtual_machine
from servemark.machine.scheduling import Attributes, GrantedPriority, Priority, is_realtime, named, ordinary
from servemark.telemetry import os_threads
from servemark.telemetry.energy.meter import UnavailableError
from servemark.telemetry.energy.sources import rapl_meter

MOST_SHARE = 0.5
"""Of a core, in real time. A fair scheduler gives a thread as much beside one other, so up to here real time changes
when the generator runs, and takes nothing from the server that it would have had otherwise."""
WATCHED_S = 1.0
"""Over which the share is taken: a generator that catches up after a stall may use a core for a moment."""
_CLOCKS = (time.monotonic, time.thread_time)
_SAME_MACHINE = "the server is on this machine, or it is not known: it would answer sooner (--cpu-latency-qos on)"
_METERED = "cores that do not idle would use energy that is metered"
_BARE_METAL = "no virtual machine: cores in deep idle states leave power for the clocks of the busy ones"


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
        why = scheduling.refusal(Priority(self._asked))
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

    def __exit__(self, *_: object) -> None:
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
        scheduling.schedule(priority, before)
        self._now = priority
        for thread in os_threads.running.copy():
            self._join(thread)

    def _join(self, thread: int) -> None:
        """Schedule a meter's thread as this one."""
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if self._before is not None:
                scheduling.schedule(self._now, self._before, thread)

    def _wanted(self, before: Attributes, reasons: list[str]) -> list[Priority]:
        """List the priorities to try, in order, and append the reasons against the others."""
        if self._asked != AUTO:
            return [Priority(self._asked)]
        if not ordinary(before):
            reasons.append(f"left as it was started: {named(before)}")
            return [Priority.NORMAL]
        if not self._open_loop:
            reasons.append("a closed loop waits for answers, not for a schedule")
            return [Priority.NORMAL]
        return list(Priority)


class CpuLatency:
    """Keeps all cores of this machine out of idle states from entering to leaving it.

    `asked` is a value of --cpu-latency-qos. `auto` changes nothing that is measured: it holds only where the server is
    on another machine, in a virtual machine, where it is permitted and nothing meters the energy of the cores.
    `power_command` says that the user's command does.
    """

    def __init__(self, asked: str, *, power_command: bool) -> None:
        self._asked, self._power_command = asked, power_command
        self._held: int | None = None
        self._server_elsewhere = False
        self.figure = Value.unknown("nothing was sent")
        """Within which idle cores had to wake up (us)."""

    def require(self, target: Target) -> None:
        """Check that it can be had where it was asked for, and where the server is. Raises OptionError."""
        if self._asked == AUTO:
            with contextlib.suppress(LookupError):
                self._server_elsewhere = not target.local and not target.processes()
        if self._asked == ON and (why := scheduling.awake_refusal()):
            raise OptionError(f"--cpu-latency-qos on: {why}", fix="run as root, or leave out --cpu-latency-qos")

    def __enter__(self) -> Self:
        why = self._unwanted()
        if why is None:
            try:
                self._held = scheduling.hold_awake()
            except OSError as error:
                why = f"{error.filename}: {error.strerror}"
        self.figure = Value.unknown(why) if why else Value(0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            with contextlib.suppress(OSError):
                os.close(self._held)
            self._held = None

    def _unwanted(self) -> str | None:
        """Return the reason why the lock is not held; None if it is wanted."""
        if self._asked == ON:
            return None
        if self._asked != AUTO:
            return f"--cpu-latency-qos {self._asked}"
        if not self._server_elsewhere:
            return _SAME_MACHINE
        if virtual_machine() is None:
            return _BARE_METAL
        return _METERED if self._power_command or _has_rapl() else None


def _has_rapl() -> bool:
    with contextlib.suppress(UnavailableError):
        rapl_meter("cpu_package")
        return True
    return False
