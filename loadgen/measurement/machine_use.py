"""CPU time of the machine during the measured interval, by generator, server and other work."""

import os
import time
from collections.abc import Callable, Iterable

import gevent
from gevent import GreenletExit
from gevent.event import AsyncResult

from loadgen.sut.target import Target
from servemark import interrupts
from servemark.machine.addresses import in_path
from servemark.machine.cpu_time import CannotTell, CpuUse, Watch
from servemark.machine.processes import generator_roots

GENERATOR, SERVER = "generator", "server"
READ_TIMEOUT_S = 5.0
_NOT_BEGUN = "the run was cut short before its measured interval began"


class MachineUse:
    """Readings at both boundaries. They take some 10 ms, so a thread of the operating system takes them.

    `workers` says which processes of this machine send the load beside this one's own tree. Raises LookupError where
    one runs on another machine.
    """

    def __init__(self, target: Target, workers: Callable[[], Iterable[int]]) -> None:
        self.use: CpuUse | None = None
        self.reason = _NOT_BEGUN
        """Reason why there is no figure."""
        self._workers = workers
        self._senders: list[int] = []
        self._watch: Watch | None = None
        self._reading: AsyncResult[None] | None = None
        self._servers: list[int] = []
        self._unknown: str | None = None
        self._threads = gevent.get_hub().threadpool  # made now: connections may use up the descriptors that it needs
        try:
            self._servers = target.processes()
        except LookupError as error:
            self._unknown = str(error)

    @property
    def server_elsewhere(self) -> bool:
        """Return True if no process of this machine serves: other work here cannot slow the server down."""
        return self._unknown is None and not self._servers

    def begin(self) -> None:
        """Take the first reading."""
        self._reading = self._threads.spawn(self._begin)

    def finish(self) -> None:
        """Take the second."""
        self._reading = self._threads.spawn(self._finish)

    def wait(self) -> None:
        """Wait for the second."""
        start = time.monotonic()
        while self._reading is not None and not self._reading.ready() and time.monotonic() - start < READ_TIMEOUT_S:
            try:
                gevent.sleep(interrupts.POLL_S / 10)
            except GreenletExit:
                return

    def discard(self) -> None:
        """Forget both readings: the interval had not begun, and they may be of a moment between two threads."""
        self.use, self.reason = None, _NOT_BEGUN

    def _begin(self) -> None:
        try:
            if self._unknown is not None:
                raise CannotTell(self._unknown)
            # Once, before they have figures: to work these out imports what starts a process, which no thread can.
            self._senders = [*self._workers()]
            watch = Watch({SERVER: self._servers, GENERATOR: [*generator_roots(), *self._senders]})
            self._look_behind(watch)
            self._watch = watch
        except (CannotTell, LookupError, OSError) as error:
            self.reason = str(error)

    def _look_behind(self, watch: Watch) -> None:
        """Count what stands behind a proxy, too.

        At both ends: a proxy connects when requests come, and closes its connections when ours are closed.
        """
        watch.add(SERVER, in_path(self._servers, {*generator_roots(), os.getpid(), *self._senders}))

    def _finish(self) -> None:
        if self._watch is None:
            return
        try:
            last = self._watch.snapshot()
            self._look_behind(self._watch)
            self.use = self._watch.use(last)
        except (CannotTell, LookupError, OSError) as error:
            self.reason = str(error)
