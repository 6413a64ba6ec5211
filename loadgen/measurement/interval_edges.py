"""Readings at the boundaries of the measured interval: CPU time, the target's counters, energy, use of the cores."""

import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from typing import Any, Protocol

import gevent
from gevent import GreenletExit
from gevent.event import AsyncResult

from loadgen.sut.target import Target
from servemark import interrupts
from servemark.machine.addresses import in_path
from servemark.machine.cpu_time import CannotTell, CpuUse, Watch
from servemark.machine.processes import generator_roots
from servemark.telemetry.energy import BOUNDARY_OF_DEVICE, open_meter
from servemark.telemetry.energy.command import PowerCommand
from servemark.telemetry.energy.meter import Boundary, EnergyReading, Meter

IDLE_S = 2.0
"""Length of the energy meter's idle baseline, if there is a meter: 20 refreshes of a GPU's counter."""
READ_TIMEOUT_S = 10.0
"""Maximum wait for the target's counters at the end of a run."""
INTERRUPTED_READ_TIMEOUT_S = 2.0
"""The same where a signal ends it."""
USE_TIMEOUT_S = 5.0
"""Maximum wait for the use of the cores."""
GENERATOR, SERVER = "generator", "server"
_NOT_BEGUN = "the run was cut short before its measured interval began"


class Reading(Protocol):
    """Reading that is taken when the measured interval begins, and again when it ends."""

    def begin(self) -> None:
        """Read it at the start."""

    def finish(self) -> None:
        """Read it at the end."""


class Boundaries:
    """Has readings taken, once each, when the measured interval begins and when it ends."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = readings
        self._begun = self._finished = False

    def tick(self, now: int, start: int, *, over: bool) -> None:
        """Take the readings whose time has come: of an interval that begins at `start`, and is `over` or not."""
        if now >= start:
            self._begin()
        if over:
            self.finish()

    def finish(self) -> None:
        """Take those that are missing, also of a run that was cut short."""
        self._begin()
        if not self._finished:
            self._finished = True
            for reading in self._readings:
                reading.finish()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            for reading in self._readings:
                reading.begin()


class CpuTime:
    """CPU time of the thread that calls it."""

    def __init__(self) -> None:
        self._start: tuple[float, float] | None = None
        self._end: tuple[float, float] | None = None

    def begin(self) -> None:
        self._start = _thread_and_clock_s()

    def finish(self) -> None:
        self._end = _thread_and_clock_s()

    @property
    def share(self) -> float | None:
        """Share of one core that was used until now or the end, None before the start."""
        if self._start is None:
            return None
        (cpu, wall), (cpu_end, wall_end) = self._start, self._end or _thread_and_clock_s()
        return (cpu_end - cpu) / (wall_end - wall) if wall_end > wall else None


class Statistics:
    """The target's counters. It answers to a thread (under Locust: a greenlet), so that the schedule goes on."""

    def __init__(self, target: Target) -> None:
        self.before: dict[str, Any] | None = None
        self.after: dict[str, Any] | None = None
        self.late: dict[str, Any] | None = None
        """Statistics at the end or, if there are none, of some seconds later, which only show that the target lives."""
        self.available = target.statistics() is not None
        """True if the target gave statistics before the load: without any after it, the target is gone."""
        self._target = target
        self._readers: list[Thread] = []

    def begin(self) -> None:
        self._ask("before")

    def finish(self) -> None:
        self._ask("after")

    def wait(self) -> None:
        """Wait for the target's answers.

        An overloaded one may be too busy to give its counters when the interval ends. It is asked once more, since all
        requests have their outcome by now.
        """
        self._wait()
        if self.available and self.after is None:
            self._ask("late")
            self._wait()

    def _wait(self) -> None:
        start = time.monotonic()
        with contextlib.suppress(GreenletExit):
            for reader in self._readers:
                while reader.is_alive() and time.monotonic() - start < _read_timeout_s():
                    reader.join(interrupts.POLL_S)

    def _ask(self, name: str) -> None:
        reader = Thread(target=lambda: setattr(self, name, self._target.statistics()), daemon=True)
        reader.start()
        self._readers.append(reader)


class Energy:
    """The energy of the device that computes, and of the idle one, where there is a meter for it.

    A command of the user's is the meter where there is one: also of a server elsewhere. Raises OptionError where it
    cannot be started.
    """

    def __init__(
        self, target: Target, device: str | None, gpus: Sequence[int] = (), command: tuple[str, Boundary] | None = None
    ) -> None:
        self.reading: EnergyReading | None = None
        self.command = PowerCommand(*command) if command else None
        try:
            self._meter, self.reason = _meter(target, device, gpus, self.command)
            """`reason`: why there is no meter."""
            self.idle = _idle(self._meter)
            """Before the load."""
        except BaseException:  # a Stop in Locust's web UI is a GreenletExit
            self.close()
            raise

    def begin(self) -> None:
        if self._meter is not None:
            self._meter.start()

    def finish(self) -> None:
        if self._meter is not None:
            self.reading = self._meter.stop()

    def joules_between(self, times_ns: Sequence[float], completed: Sequence[int]) -> list[tuple[float, int]]:
        """Return the joules and the answers of the stretches between these times, joined until the meter tells them.

        `completed` are the answers of each stretch. Empty where nothing was metered.
        """
        if self._meter is None or self.reading is None or self.reading.joules is None:
            return []
        each_s = (times_ns[-1] - times_ns[0]) / 1e9 / len(completed)
        joined = max(math.ceil(self._meter.resolved_s / each_s - 1e-9), 1) if each_s else len(completed)
        ends = list(range(0, len(completed) + 1, joined))
        joules = self._meter.joules_until([times_ns[end] for end in ends])
        return [
            (joules[number + 1] - joules[number], sum(completed[first:last]))
            for number, (first, last) in enumerate(itertools.pairwise(ends))
        ]

    @property
    def resolved_s(self) -> float:
        """Shortest stretch whose energy the meter tells."""
        return self._meter.resolved_s if self._meter is not None else 0.0

    def close(self) -> None:
        """End the user's command."""
        if self.command is not None:
            self.command.close()


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
        try:
            # Not in the thread: to work out a worker's figures may import what starts a process, which no thread can.
            self._senders = [*self._workers()]
        except (LookupError, OSError) as error:
            self.reason = str(error)
            return
        self._reading = self._threads.spawn(self._begin)

    def finish(self) -> None:
        self._reading = self._threads.spawn(self._finish)

    def wait(self) -> None:
        """Wait for the last reading."""
        start = time.monotonic()
        while self._reading is not None and not self._reading.ready() and time.monotonic() - start < USE_TIMEOUT_S:
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
            watch = Watch({SERVER: self._servers, GENERATOR: [*generator_roots(), *self._senders]})
            self._look_behind(watch)
            self._watch = watch
        except (CannotTell, OSError) as error:
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


def _thread_and_clock_s() -> tuple[float, float]:
    return time.thread_time(), time.monotonic()


def _read_timeout_s() -> float:
    return INTERRUPTED_READ_TIMEOUT_S if interrupts.requested() else READ_TIMEOUT_S


def _meter(
    target: Target, device: str | None, gpus: Sequence[int], command: PowerCommand | None
) -> tuple[Meter | None, str | None]:
    """The meter of the device that computes, or why there is none. Raises KeyboardInterrupt."""
    if command is not None:
        reason = command.wait_for_first()
        return (command.meter, None) if reason is None else (None, reason)
    if not target.local:
        return None, "the server runs on another machine, which cannot be metered from here: --power-command"
    return open_meter(BOUNDARY_OF_DEVICE[(device or "cpu").partition(":")[0]], gpus=gpus or None)


def _idle(meter: Meter | None) -> EnergyReading | None:
    if meter is None:
        return None
    meter.start()
    time.sleep(IDLE_S)
    return meter.stop()
